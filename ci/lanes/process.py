"""One child process in a group of its own, its output shown and kept.

Whatever ends the child (its own end, Ctrl-C, a cancelled job), nothing that it
started outlives it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

GRACE_S = 7.0
"""How long an interrupted child may take to end by itself; a cancelled CI job is killed after 7.5 s."""


def run_logged(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    show: IO[str] | None = None,
    pass_fds: Sequence[int] = (),
) -> int:
    """Run ``command`` to its end, with its output in ``log`` and on ``show`` (default: standard output).

    Args:
        command: program and arguments.
        cwd: its working directory.
        env: its whole environment.
        log: the file that keeps its output.
        show: where the output is shown as it comes.
        pass_fds: descriptors that it keeps open, such as a lock that has to outlive this process.

    Returns:
        Its exit status; minus the signal's number if a signal ended it.

    Raises:
        KeyboardInterrupt: Ctrl-C, or a SIGTERM to this process; the child is ended first.
    """
    with log.open("w", encoding="utf-8", errors="replace") as kept, terminated_as_interrupted():
        child = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            pass_fds=pass_fds,
        )
        reader = threading.Thread(target=_tee, args=(child.stdout, kept, show or sys.stdout), daemon=True)
        reader.start()
        try:
            return child.wait()
        except KeyboardInterrupt:
            _signal_group(child.pid, signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=GRACE_S)
            raise
        finally:
            # The group may outlive its leader: workers and servers that the child did not wait for.
            _signal_group(child.pid, signal.SIGKILL)
            child.wait()
            reader.join(timeout=GRACE_S)


def _tee(source: IO[str] | None, kept: IO[str], shown: IO[str]) -> None:
    if source is None:
        return
    with source:
        for line in source:
            kept.write(line)
            kept.flush()
            # A closed terminal or pipe must not stop the run, whose log is the file.
            with suppress(OSError, ValueError):
                shown.write(line)
                shown.flush()


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that a cancelled job also ends its children.

    And Ctrl-C as such: a process that a script put into the background inherits that it is ignored.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
