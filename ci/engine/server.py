"""One server process: started, waited for, asked, ended. Whatever ends the harness ends the server too."""

from __future__ import annotations

import enum
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.error import HTTPError

from ci.engine.orphans import MARK, end_marked, new_mark
from ci.errors import GateError

HOST = "127.0.0.1"
POLL_S = 0.2
STOP_S = 6.5
"""How long the keeper may take before its work is done for it: a cancelled job has seven seconds."""
REQUEST_S = 120.0
ROOT = Path(__file__).parents[2]
NO_ANSWER = (OSError, http.client.HTTPException, ValueError, RecursionError)
"""What asking raises: refused, cut and late; no HTTP, or a body that ends early; no JSON, or too deep."""


class ServerError(GateError):
    """The server could not be started or asked."""


class Health(enum.Enum):
    """What waiting for a server came to."""

    READY = "ready"
    EXITED = "exited"
    TIMED_OUT = "timed out"


@dataclass(frozen=True)
class Ended:
    """How a server ended."""

    exit_code: int | None
    by_itself: bool
    """True if it was gone before anybody ended it."""
    swept: tuple[int, ...]
    """Processes that had left its group and were killed one by one."""
    seconds: float


@dataclass
class Server:
    """A server while it runs; use it as a context, so that leaving ends it."""

    command: Sequence[str]
    """With `{port}` where the port goes."""
    env: Mapping[str, str]
    log: Path
    port: int = 0
    """Chosen at the start, and kept from others until the end."""
    mark: str = field(default_factory=new_mark)
    pid: int | None = None
    ended: Ended | None = None
    _keeper: subprocess.Popen[bytes] | None = None
    _kept: socket.socket | None = None

    def __enter__(self) -> Server:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._kept = keep_port()
        self.port = self._kept.getsockname()[1]
        command = [word.replace("{port}", str(self.port)) for word in self.command]
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "ci.engine.keeper", str(self.log), *command],
            cwd=ROOT,
            env={**self.env, MARK: self.mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.pid = self._said().get("pid")
        if self.pid is None:
            self.stop()
            raise ServerError(f"{command[0]} could not be started", remedy=f"look at {self.log}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the server is still there."""
        return self._keeper is not None and self._keeper.poll() is None

    def wait_healthy(self, timeout_s: float) -> Health:
        """Wait until /health answers, the server ends, or time is up."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if not self.running:
                return Health.EXITED
            if self.healthy():
                return Health.READY
            time.sleep(POLL_S)
        return Health.TIMED_OUT

    def healthy(self) -> bool:
        """Whether /health answers 200 now."""
        try:
            with urllib.request.urlopen(self.url("/health"), timeout=5) as answer:  # noqa: S310 - our own host
                return bool(answer.status == 200)
        except NO_ANSWER:
            return False

    def get(self, path: str) -> str | None:
        """The body of a page; None if it is not served."""
        try:
            with urllib.request.urlopen(self.url(path), timeout=10) as answer:  # noqa: S310 - our own host
                return str(answer.read().decode(errors="replace")) if answer.status == 200 else None
        except NO_ANSWER:
            return None

    def complete(self, prompt: str | Sequence[Sequence[int]], max_tokens: int = 16) -> str | None:
        """The text that the server generates for a text, or for the first of several prompts in token
        numbers; None if it answers with anything else.
        """
        asked = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True})
        request = urllib.request.Request(  # noqa: S310 - our own host
            self.url("/v1/completions"), data=asked.encode(), headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:  # noqa: S310 - our own host
                said: Any = json.loads(answer.read())
            return str(said["choices"][0]["text"])
        except (*NO_ANSWER, KeyError, IndexError, TypeError):
            return None

    def post(self, path: str, asked: Mapping[str, Any], timeout_s: float = REQUEST_S) -> dict[str, Any]:
        """The JSON object that a page answers.

        Raises:
            ServerError: no answer in time, another status, or no object.
        """
        request = urllib.request.Request(  # noqa: S310 - our own host
            self.url(path), data=json.dumps(asked).encode(), headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310 - our own host
                said: Any = json.loads(answer.read())
        except NO_ANSWER as error:
            raise ServerError(
                f"{path}: no usable answer: {told(error)}", remedy=f"look at {self.log}"
            ) from error
        if not isinstance(said, dict):
            raise ServerError(f"{path}: answered no object", remedy=f"look at {self.log}")
        return said

    def url(self, path: str) -> str:
        """An address on this server."""
        return f"http://{HOST}:{self.port}{path}"

    def stop(self) -> Ended:
        """End the server and everything that it started; safe to call again."""
        if self.ended is not None or self._keeper is None:
            return self.ended or Ended(None, True, (), 0.0)
        begun = time.monotonic()
        keeper = self._keeper
        with suppress(OSError):
            if keeper.stdin:
                keeper.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            keeper.wait(timeout=STOP_S)
        said = self._said() if keeper.poll() is not None else {}
        if keeper.poll() is None:
            keeper.kill()
            keeper.wait()
        if self.pid is not None and "exit" not in said:  # the keeper was killed before it could end anything
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        swept = (*said.get("swept", ()), *end_marked(self.mark))
        if keeper.stdout:
            keeper.stdout.close()
        if self._kept is not None:
            self._kept.close()
        seconds = time.monotonic() - begun
        self.ended = Ended(said.get("exit"), bool(said.get("by_itself")), swept, seconds)
        return self.ended

    def _said(self) -> dict[str, Any]:
        """The keeper's next line; empty if it has none."""
        if self._keeper is None or self._keeper.stdout is None:
            return {}
        line = self._keeper.stdout.readline()
        try:
            found = json.loads(line)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def told(error: Exception) -> str:
    """What came instead of an answer; of a refusal also what the server said, in one line, shortened."""
    named = repr(error)  # the text alone may be the bytes that came, where they are no HTTP
    if not isinstance(error, HTTPError):
        return named
    said = b""
    with error, suppress(*NO_ANSWER):
        said = error.read1(500)  # what is there: it may never end
    return " ".join([named, *said.decode(errors="replace").split()])


def keep_port() -> socket.socket:
    """A port that the system gives to nobody else while this socket is open.

    A server may listen there that sets SO_REUSEADDR, as vLLM's and Python's own do. A port that is merely
    free now can be another's before the server has started.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind((HOST, 0))
    return kept
