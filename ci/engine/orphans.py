"""Processes of a boot, found by a mark in their environment: workers may leave their server's session."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
MARK = "FORKPROOF_BOOT"
"""Carried by every process of a boot; its value names the boot and the process that asked for it."""
POLL_S = 0.05
EXEC_S = 0.2
"""How long a process may show no environment; it takes microseconds, more where it is kept from its core."""
EXEC_POLL_S = 0.001


def new_mark() -> str:
    """A mark that tells this boot from every other, and whose owner can be looked up."""
    return f"{os.getpid()}-{started(os.getpid())}-{os.urandom(6).hex()}"


def marked(mark: str | None = None) -> Iterator[tuple[int, str]]:
    """Living processes that carry a mark (this one, or any), with it; never the caller itself."""
    for folder in PROC.iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        found = mark_of(int(folder.name))
        if found is not None and (mark is None or found == mark):
            yield int(folder.name), found


def mark_of(pid: int) -> str | None:
    """The mark of a process; None if it has none, has ended, or is somebody else's."""
    try:
        environment = environment_of(pid)
    except OSError:
        return None
    prefix = MARK.encode() + b"="
    for variable in environment.split(b"\0"):
        if variable.startswith(prefix):
            return variable.removeprefix(prefix).decode(errors="replace")
    return None


def environment_of(pid: int) -> bytes:
    """What /proc shows of it. For a moment in which a process executes another program that is nothing:
    it is looked at again, unless it has no memory either, as a zombie and a thread of the kernel.

    Raises:
        OSError: the process has ended, or is somebody else's.
    """
    folder = PROC / str(pid)
    deadline = time.monotonic() + EXEC_S
    while not (found := (folder / "environ").read_bytes()) and time.monotonic() < deadline:
        if (folder / "statm").read_text().startswith("0 "):
            break
        time.sleep(EXEC_POLL_S)
    return found


def started(pid: int) -> int | None:
    """When a process started, in clock ticks since the machine did: with the pid it names one process."""
    try:
        after_name = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (OSError, UnicodeDecodeError):
        return None
    return int(after_name[19])


def abandoned() -> list[tuple[int, str]]:
    """Marked processes whose owner is gone: what a killed harness left behind."""
    return [(pid, mark) for pid, mark in marked() if not owner_lives(mark)]


def owner_lives(mark: str) -> bool:
    """Whether the process that asked for this boot is still there."""
    pid, _, rest = mark.partition("-")
    return pid.isdigit() and str(started(int(pid))) == rest.partition("-")[0]


def end_marked(mark: str, patience_s: float = 1.0) -> list[int]:
    """Kill what still carries the mark, newborn processes included; returns what was killed."""
    killed: list[int] = []
    deadline = time.monotonic() + patience_s
    while True:
        left = [pid for pid, _ in marked(mark)]
        if not left or time.monotonic() > deadline:
            return killed
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                killed += [pid] if pid not in killed else []
        time.sleep(POLL_S)
