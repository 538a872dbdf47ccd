"""A file with one holder: who holds it is said, and nothing outlives its holder."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from ci.results.lock import HeldError, held


def test_one_holder_who_is_named(tmp_path: Path) -> None:
    """A second one ends at once and is told who holds it and for what; afterwards it can be had."""
    path = tmp_path / "new" / "lock"
    begun = time.monotonic()
    with (
        held(path, "a session"),
        pytest.raises(HeldError, match=rf"lock: held by pid {os.getpid()}: a session") as caught,
        held(path, "another"),
    ):
        pass
    assert time.monotonic() - begun < 5
    assert caught.value.holder == f"pid {os.getpid()}: a session"
    with held(path, "another"):
        assert path.read_text() == f"pid {os.getpid()}: another\n"


def test_who_waits_says_so_once_and_gets_its_turn(tmp_path: Path) -> None:
    """The wait ends with the holder."""
    told, free = [], threading.Event()
    with held(tmp_path / "lock", "short") as descriptor:
        copy = os.dup(descriptor)  # it keeps the lock behind the block

    def end() -> None:
        free.wait()
        time.sleep(0.5)
        os.close(copy)

    holder = threading.Thread(target=end)
    holder.start()
    with held(tmp_path / "lock", "long", wait_s=60, waiting=lambda: (told.append(1), free.set())):
        assert told == [1]
    holder.join()


def test_no_child_keeps_it(tmp_path: Path) -> None:
    """A process that a holder started, and that lives on, does not have the file open."""
    with held(tmp_path / "lock", "a session") as descriptor:
        assert not os.get_inheritable(descriptor)
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with held(tmp_path / "lock", "the next"):
            pass
    finally:
        child.kill()
        child.wait()


def test_a_full_disk_keeps_nobody_from_a_lock() -> None:
    """What it is held for is written for people; without a place for that the lock holds all the same."""
    with held(Path("/dev/full"), "a session"):
        pass


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_not_followed(tmp_path: Path, there: bool) -> None:
    """A link in a lock's place is an error that says so; what it leads to is neither emptied nor made."""
    target = tmp_path / "target"
    if there:
        target.write_text("keep")
    (tmp_path / "lock").symlink_to(target)
    with pytest.raises(OSError, match="lock is a link") as caught, held(tmp_path / "lock", "a session"):
        pass
    assert caught.value.filename == str(tmp_path / "lock")
    assert (target.read_text() if there else target.exists()) == ("keep" if there else False)


def test_what_cannot_be_locked_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system's error carries the path, which it lacks where a lock is refused."""

    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(OSError, match="No locks available") as caught, held(tmp_path / "lock", "x"):
        pass
    assert caught.value.filename == str(tmp_path / "lock")
