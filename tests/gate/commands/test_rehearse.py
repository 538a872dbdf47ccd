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


def test_an_unknown_event_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything runs, and with the events that there are."""
    played: list[Scenario] = []
    monkeypatch.setattr(rehearse, "play", lambda scenario, folder: played.append(scenario))
    assert cli.main(["rehearse", "fork", "nothing"]) == 2
    said = capsys.readouterr().err
    assert "there is no event nothing" in said
    assert "missing-lane" in said
    assert played == []
