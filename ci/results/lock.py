"""A file that one process holds at a time; the lock ends with the last process that has the file open."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from ci.errors import GateError

POLL_S = 0.2
MAX_WORDS_BYTES = 1000


class HeldError(GateError):
    """Another process holds the file; ``holder`` says who, and for what."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path}: held by {holder}", remedy="wait until that has ended")
        self.holder = holder


@contextmanager
def held(
    path: Path, what: str, wait_s: float = 0.0, waiting: Callable[[], object] = lambda: None
) -> Iterator[int]:
    """Hold a file alone; it is made if absent, and stays.

    Args:
        path: of the file.
        what: it is held for, shown to whoever finds it held.
        wait_s: how long to wait for another holder.
        waiting: called once if there is one.

    Yields:
        The descriptor, to hand on to whatever has to hold it too; no child has it otherwise.

    Raises:
        HeldError: another process holds it.
        OSError: the file cannot be made or locked, or is a link, whose target would be written over.
    """
    with suppress(FileExistsError):  # what stands there and is no folder is said better below
        path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(_opened(path), "a+b", buffering=0) as lock:
        if not _taken(lock, path):
            waiting()
            _wait(lock, path, time.monotonic() + wait_s)
        with suppress(OSError):  # words for people only: a full disk has no place for them
            lock.truncate(0)
            lock.write(f"pid {os.getpid()}: {what}\n".encode())
        yield lock.fileno()


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        error.filename = str(path)
        if path.is_symlink():
            error.strerror = f"{path.name} is a link, and a lock has to be a file of its own"
        raise


def _wait(lock: FileIO, path: Path, deadline: float) -> None:
    while not _taken(lock, path):
        if time.monotonic() >= deadline:
            lock.seek(0)
            words = lock.read(MAX_WORDS_BYTES).decode(errors="replace").strip()
            raise HeldError(path, words or "a holder that has not said who it is")
        time.sleep(POLL_S)


def _taken(lock: FileIO, path: Path) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        error.filename = str(path)
        raise
    return True
