"""What the command refuses before it does any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.cli import main
from ci.commands import bundle


@pytest.mark.parametrize(
    ("names", "unpack"),
    [
        (["b.tar.xz"], "tar xJf b.tar.xz"),
        (["b.tar.xz.part01", "b.tar.xz.part02"], "cat b.tar.xz.part* | tar xJ"),
    ],
)
def test_the_last_words_unpack_what_was_written(names: list[str], unpack: str) -> None:
    """Whole or in parts, the command is the one for these files."""
    said = bundle.closing([Path("out", name) for name in names], 4, 67)
    assert said == (f"bundle of 4 arms and 67 wheels; on the host: {unpack}, then forkproof-bundle/run.sh")


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
