"""The calibration command: goals, page, exit code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.cli import main
from ci.commands import calibrate
from ci.gate.calibration import Scenario, Shares
from ci.gate.calibration_prompts import PromptScenario, simulate_prompts
from ci.report.calibration import Calibration
from tests.gate.report.test_calibration import GOOD, shares


def _run(monkeypatch: pytest.MonkeyPatch, rows: dict[Scenario, Shares], *more: str) -> int:
    monkeypatch.setattr(calibrate, "calibrate", lambda *_: Calibration(rows, {}, {}, 1, 1))
    return main(["calibrate", *more])


def test_all_goals_met(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Met goals are exit 0, and the page is written whole."""
    assert _run(monkeypatch, shares(), "--write", str(tmp_path / "page.md")) == 0
    assert (tmp_path / "page.md").read_text().startswith("# How often")
    assert capsys.readouterr().out.splitlines()[-1] == "verdict: pass - 4 of 4 goals met (exit 0)"


def test_the_page_goes_into_a_pipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is no file is written into and stays what it is."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert _run(monkeypatch, shares(), "--write", str(pipe)) == 0
    assert os.read(reader, 10) == b"# How ofte"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_missed_goal_is_red(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One missed goal is exit 1 and named."""
    rows = shares() | {Scenario(-0.01, 0.003, 8): GOOD}
    assert _run(monkeypatch, rows) == 1
    out = capsys.readouterr().out
    assert "MISSED  a true -1% is found" in out
    assert out.splitlines()[-1] == "verdict: regressed - 3 of 4 goals met (exit 1)"


@pytest.mark.parametrize("more", [("--repeats", "0"), ("--processes", "0"), ("--repeats", "x")])
def test_unusable_numbers(more: tuple[str, ...]) -> None:
    """A run of nothing is refused."""
    assert main(["calibrate", *more]) == 2


def test_rows_do_not_depend_on_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row has a seed of its own."""
    monkeypatch.setattr(calibrate, "scenarios", lambda: [Scenario(0.0, 0.003, 2), Scenario(-0.01, 0.003, 2)])
    monkeypatch.setattr(calibrate, "prompt_scenarios", lambda: [PromptScenario(2, 0, -0.03)])
    monkeypatch.setattr(calibrate, "USUAL_BOOTS", (2,))
    once = calibrate.calibrate(5, 3, 1)
    assert once == calibrate.calibrate(5, 3, 2)
    assert once.prompts == {PromptScenario(2, 0, -0.03): simulate_prompts(PromptScenario(2, 0, -0.03), 2, 3)}
