from __future__ import annotations

from pathlib import Path

import pytest

from ci import cli
from ci.commands import rehearse
from ci.rehearsal.play import Outcome, Scenario


@pytest.mark.parametrize(("problems", "code"), [((), 0), (("the status is none, not success",), 2)])
def test_an_event_that_went_otherwise_is_red(
    problems: tuple[str, ...],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each problem is printed, and the last line counts them."""

    def play(scenario: Scenario, folder: Path) -> Outcome:
        return Outcome(scenario, "none", problems, 0.0)

    monkeypatch.setattr(rehearse, "play", play)
    monkeypatch.setattr(rehearse, "FOLDER", tmp_path)
    assert cli.main(["rehearse", "fork"]) == code
    assert f"1 events rehearsed, {len(problems)} problems" in capsys.readouterr().out


def test_an_unknown_event_is_red(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing rehearsed is no pass."""
    assert cli.main(["rehearse", "nothing"]) == 2
    assert "there is no event nothing" not in capsys.readouterr().err
