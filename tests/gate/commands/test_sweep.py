from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ci import cli
from ci.commands import sweep
from ci.engine.orphans import MARK, new_mark

GONE = "1-1-aaaaaaaaaaaa"
"""The mark of a boot whose harness started another process 1 than the one that lives."""


def only(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the sweep see one boot: other tests have abandoned processes of their own."""
    found = sweep.abandoned
    monkeypatch.setattr(sweep, "abandoned", lambda: [(pid, seen) for pid, seen in found() if seen == mark])


@pytest.fixture
def engine() -> Iterator[subprocess.Popen[bytes]]:
    """A process that carries an abandoned boot's mark."""
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={**os.environ, MARK: GONE}
    )
    yield child
    child.kill()
    child.wait()


def test_what_lost_its_harness_is_ended(
    engine: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named; a dry run leaves it and says no verdict, a sweep ends it."""
    only(GONE, monkeypatch)
    assert cli.main(["sweep", "--dry-run"]) == 2
    assert f"process {engine.pid} of boot {GONE}" in capsys.readouterr().out
    assert engine.poll() is None
    assert cli.main(["sweep"]) == 0
    assert engine.wait(timeout=10) < 0


def test_an_engine_with_its_harness_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark of a living harness protects its processes."""
    mark = new_mark()
    only(mark, monkeypatch)
    environment = {**os.environ, MARK: mark}
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=environment)
    try:
        cli.main(["sweep"])
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()
