"""What the command refuses before it does any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.cli import main
from ci.commands import bundle


def test_a_target_that_cannot_be_written_is_refused_before_arms_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody waits for arms and wheels to learn that the archive has no place."""
    monkeypatch.setattr(bundle, "find_arms_up_to", lambda *_, **__: pytest.fail("arms were built"))
    (tmp_path / "file").touch()
    for out in (tmp_path / "file" / "y.tar.xz", tmp_path):
        assert main(["bundle", "--out", str(out)]) == 2
        err = capsys.readouterr().err.splitlines()
        assert err[0].startswith("error: --out ")
        assert err[1].startswith("  remedy: ")
        assert err[-1].startswith("verdict: no verdict - --out ")
