"""A process beside the test that answers one question after another, each in one line of JSON.

It prepares itself while the test and other children do the same, and then waits for its turn: what is
measured in turns needs no second start, and nobody is at work while another one measures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ANSWER_SECONDS = 600.0
"""For one answer: the first one waits for imports and for every kernel to be compiled."""
ANSWERS_VARIABLE = "FORKPROOF_ANSWERS_FD"
LAST_WORDS_BYTES = 4000


class ChildError(RuntimeError):
    """The child gave no answer: its last words say why."""


class Child:
    """A script that calls `serve`, in a process of its own; it ends with the block that it was made for.

    Whatever it prints is kept as its last words. Answers have a pipe of their own, because importing vLLM
    alone prints.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], seconds: float = ANSWER_SECONDS
    ) -> None:
        """Start `command` under this Python; `seconds` is the most that one answer may take."""
        self.command = [sys.executable, *command]
        self.seconds = seconds
        self.overdue = False
        """Whether an answer took too long, for which the child was ended."""
        self.printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        receive, send = os.pipe()
        self.answers = os.fdopen(receive, encoding="utf-8")
        self.process = subprocess.Popen(
            self.command,
            env={**env, ANSWERS_VARIABLE: str(send)},
            stdin=subprocess.PIPE,
            stdout=self.printed,
            stderr=self.printed,
            pass_fds=(send,),
            text=True,
        )
        os.close(send)  # so that the end of the child is the end of its answers

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self.answers.close()
        self.printed.close()

    def ask(self, question: str) -> Any:
        """Put a question of one line and wait for the answer; errors as for `answer`."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise ChildError(self._last_words()) from None
        return self.answer()

    def answer(self) -> Any:
        """Wait for the next answer.

        Raises:
            ChildError: the child ended instead, or took too long and was ended.
        """
        alarm = threading.Timer(self.seconds, self._end_overdue)
        alarm.start()
        try:
            line = self.answers.readline()
        finally:
            alarm.cancel()
        if not line.endswith("\n"):
            raise ChildError(self._last_words())
        return json.loads(line)

    def _end_overdue(self) -> None:
        self.overdue = True
        self.process.kill()

    def _last_words(self) -> str:
        code = self.process.wait()
        why = f"gave no answer within {self.seconds:g} s" if self.overdue else f"ended with status {code}"
        self.printed.seek(0, os.SEEK_END)
        self.printed.seek(max(0, self.printed.tell() - LAST_WORDS_BYTES))
        said = self.printed.read().decode(errors="replace")
        return f"{' '.join(self.command)} {why}: {said}"


def serve(first: Any, questions: Mapping[str, Callable[[], Any]]) -> None:
    """Be a child that is prepared: give the first answer, then one to each question, until there are no more.

    Raises:
        KeyError: a question that is not among `questions`; the child ends there.
    """
    with os.fdopen(int(os.environ[ANSWERS_VARIABLE]), "w", encoding="utf-8") as answers:
        print(json.dumps(first), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(questions[line.strip()]()), file=answers, flush=True)
