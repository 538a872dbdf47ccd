"""The history of baselines comes from git, oldest first, and its absence is no error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ci.commands.history import read_history
from ci.report.charts import Point
from tests.gate.samples import Sample

KEY = ("cpu", "property", "boot", "step_ms")


def _git(root: Path, *arguments: str, day: str = "2026-01-01") -> None:
    stamp = f"{day}T12:00:00Z"
    subprocess.run(
        ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
        check=True,
        capture_output=True,
        env={
            "GIT_AUTHOR_DATE": stamp,
            "GIT_COMMITTER_DATE": stamp,
            "HOME": str(root),
            "PATH": "/usr/bin:/bin",
        },
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a checkout in which one value was accepted three times, the last time unchanged."""
    _git(tmp_path, "init", "-q")
    for value, day in ((9.0, "2026-01-01"), (10.0, "2026-02-01"), (10.0, "2026-03-01")):
        sample = Sample()
        sample.accept("boot", "step_ms", value, "ms")
        sample.accept("grid", "violations", int(day[6]), "vectors")
        sample.write(tmp_path)
        _git(tmp_path, "add", "-A")
        _git(tmp_path, "commit", "-qm", "accept", day=day)
    return tmp_path


def test_values_where_they_changed(repository: Path) -> None:
    """Each change is a point with the day of its commit."""
    history = read_history(repository / "baselines")
    assert history[KEY] == [Point("2026-01-01", 9.0), Point("2026-02-01", 10.0)]
    assert [point.value for point in history["cpu", "property", "grid", "violations"]] == [1, 2, 3]


def test_outside_of_git_there_is_none(tmp_path: Path) -> None:
    """A plain folder has no history."""
    assert read_history(Sample().write(tmp_path) / "baselines") == {}


def test_a_version_that_cannot_be_read_is_left_out(repository: Path) -> None:
    """A broken commit in the past keeps nobody from looking at the others."""
    path = repository / "baselines" / "cpu" / "property.jsonl"
    good = path.read_bytes()
    path.write_bytes(b"\xff{torn\n")
    _git(repository, "commit", "-qam", "broken", day="2026-04-01")
    path.write_bytes(good)
    assert len(read_history(repository / "baselines")[KEY]) == 2
