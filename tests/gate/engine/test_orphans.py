"""Processes of a boot are found by their mark, and nobody else's are."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ci.engine import orphans
from ci.engine.orphans import abandoned, end_marked, mark_of, new_mark, owner_lives, started

PATIENCE_S = 8.0
"""How long a failing test waits."""


def test_left_behind_by_a_harness_and_keeper_killed_together() -> None:
    """What such a kill leaves carries the mark of a dead owner, and is found and ended at the next start."""
    mark = "999999999-1-abc"
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], env=os.environ | {"FORKPROOF_BOOT": mark}
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while (left.pid, mark) not in abandoned() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert (left.pid, mark) in abandoned()
        assert end_marked(mark) == [left.pid]
    finally:
        left.kill()
        left.wait()


def test_a_mark_names_its_owner() -> None:
    """A mark of this process has a living owner; the same pid with another start time has none."""
    mark = new_mark()
    assert owner_lives(mark)
    pid, _, rest = mark.partition("-")
    assert not owner_lives(f"{pid}-1-{rest}")
    assert not owner_lives("nonsense")


def test_what_cannot_be_read() -> None:
    """A process that is gone has neither mark nor start."""
    assert mark_of(2**22 + 1) is None
    assert started(2**22 + 1) is None


@pytest.mark.parametrize(
    ("memory", "filled", "mark"),
    [("900 1", True, "mine"), ("900 1", False, None), ("0 0", True, None)],
    ids=["starts", "has no environment", "zombie"],
)
def test_a_process_that_just_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, memory: str, filled: bool, mark: str | None
) -> None:
    """While it executes another program its environment is empty: it is looked at again."""
    folder = tmp_path / "8"
    folder.mkdir()
    (folder / "environ").write_bytes(b"")
    (folder / "statm").write_text(memory)
    now = iter(range(100))

    def sleep(_seconds: float) -> None:
        if filled:
            (folder / "environ").write_bytes(b"A=1\0FORKPROOF_BOOT=mine\0")

    monkeypatch.setattr(orphans, "PROC", tmp_path)
    monkeypatch.setattr(orphans, "EXEC_S", 5)
    monkeypatch.setattr(orphans.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(orphans.time, "sleep", sleep)
    assert mark_of(8) == mark
