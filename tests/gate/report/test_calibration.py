"""The page of the calibration: goals judged from the shares, and the replay as published in docs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ci.gate.calibration import Scenario, Shares, scenarios
from ci.gate.calibration_prompts import PromptScenario, PromptShares
from ci.gate.replay import replay
from ci.gate.usual import UsualRule
from ci.gate.verdict import Verdict
from ci.report.calibration import Calibration, goals, render_calibration, render_replay

DOCS = Path(__file__).parents[3] / "docs" / "calibration.md"
GOOD = Shares({Verdict.PASS: 1.0}, {Verdict.PASS: 0.95, Verdict.REGRESSED: 0.005}, 5.0)
FOUND = Shares({Verdict.REGRESSED: 1.0}, {Verdict.REGRESSED: 0.92}, 5.0)


def shares() -> dict[Scenario, Shares]:
    """Shares that meet every goal."""
    return {row: GOOD if row.effect >= -0.005 else FOUND for row in scenarios()}


def test_goals_are_met_and_missed() -> None:
    """Each goal turns on its own number."""
    assert [goal.met for goal in goals(shares())] == [True, True, True, True]
    main, loss = Scenario(0.0, 0.003, 8), Scenario(-0.01, 0.003, 8)
    for row, change, missed in (
        (main, {"final": {Verdict.PASS: 0.89}}, 0),
        (loss, {"final": {Verdict.REGRESSED: 0.89}}, 1),
        (Scenario(-0.005, 0.009, 4), {"final": {Verdict.REGRESSED: 0.011}}, 2),
        (loss, {"mean_pairs": 5.7}, 3),
    ):
        worse = shares()
        worse[row] = dataclasses.replace(worse[row], **change)  # type: ignore[arg-type]
        assert [goal.met for goal in goals(worse)] == [number != missed for number in range(4)]


def test_rows_that_are_not_offered_count_for_no_goal() -> None:
    """Two pairs accuse too often; the page says so, and the policy refuses them."""
    worse = shares()
    worse[Scenario(-0.005, 0.009, 2)] = Shares({}, {Verdict.REGRESSED: 0.015}, 2.0)
    assert all(goal.met for goal in goals(worse))
    page = " ".join(render_calibration(Calibration(worse, {}, {}, 10, 1)).split())
    assert "accused in up to 1.5% of cases" in page


def test_page_has_every_row() -> None:
    """Each disturbance at eight pairs, each limit of pairs, each number of prompts; missed goals in bold."""
    usual = {
        (UsualRule.WELCH, Scenario(effect, 0.003, 2)): 0.5 for effect in (0.0, -0.005, -0.01, -0.02, -0.03)
    }
    several = {
        PromptScenario(12, 4, -0.005): PromptShares({Verdict.PASS: 0.25, Verdict.REGRESSED: 0.026}, 19.52)
    }
    page = render_calibration(Calibration(shares(), several, usual, 10, 1))
    assert page.count("| 1 boot in 10 slower by 10% |") == 15
    assert page.count("\n| 2 | ") == page.count("\n| 6 | ") == 15
    assert "| Welch's t | 2 | 0.3% | 50.0% |" in page
    assert "| 12 | 4 | -0.5% | 25.0% | 0.0% | 2.6% | 0.0% | 19.5 |" in page
    assert "**no**" not in page


@pytest.mark.parametrize("name", ["measured.md", "throughput.md"])
def test_other_pages_say_what_the_calibration_says(name: str) -> None:
    """Of sessions of six prompts, as they round it."""
    table = DOCS.read_text(encoding="utf-8").partition("## Several prompts")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if "| 6 |" in line
    ]
    passing = [float(row[3].rstrip("%")) for row in rows if row[2] == "0.0%"]
    found = [row[5] for row in rows if row[2] == "-1.0%"]
    assert (len(passing), len(found)) == (2, 2)
    words = [f"{share:.0f}%" for share in passing]
    if name == "measured.md":
        words = [*(f"{share:.1f}%" for share in passing), *found]
    page = (DOCS.parent / name).read_text(encoding="utf-8")
    assert [word for word in words if word not in page] == []


def test_replay_in_docs_is_current() -> None:
    """docs/calibration.md ends in what the published tables give today; else: nox -s calibrate."""
    assert DOCS.read_text(encoding="utf-8").endswith(render_replay(replay()))
