"""The simulation draws what it says, and small runs already show the right order of things."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from ci.gate.ab import pair_ratios
from ci.gate.calibration import (
    AA_PAIRS,
    AA_SESSIONS,
    DISTURBANCES,
    EFFECTS,
    NOISES,
    PAIRS,
    USUAL_BOOTS,
    Disturbance,
    Scenario,
    draw_session,
    scenarios,
    simulate,
    simulate_usual,
)
from ci.gate.usual import UsualRule
from ci.gate.verdict import Verdict


def test_every_row_stands_once() -> None:
    """All combinations are there, none twice."""
    rows = list(scenarios())
    assert len(rows) == len(set(rows)) == 5 * 3 * 4 * 5


def test_boots_have_the_effect_and_the_order() -> None:
    """Without noise arm B is slower by exactly the effect."""
    session = draw_session(Scenario(-0.01, 0.0, 4), -0.01, 4, random.Random(1), "r")
    assert session.order == "ABBAABBA"
    assert pair_ratios(session) == pytest.approx([math.log(0.99)] * 4)


def test_drift_and_outliers_are_drawn() -> None:
    """A drift moves every boot by its step; one boot in ten is slower."""
    drifting = Scenario(0.0, 0.0, 2, Disturbance("d", drift=-0.001))
    assert draw_session(drifting, 0.0, 2, random.Random(1), "r").values == pytest.approx(
        [100 * math.exp(-0.001 * index) for index in range(4)]
    )
    outliers = Scenario(0.0, 0.0, 2, Disturbance("o", outlier_loss=0.10))
    values = draw_session(outliers, 0.0, 2000, random.Random(1), "r").values
    slow = [value for value in values if value == pytest.approx(90)]
    assert fmean([len(slow) / len(values)]) == pytest.approx(0.1, abs=0.02)


def test_a_seed_gives_the_same_shares() -> None:
    """The table can be made again."""
    row = Scenario(-0.01, 0.003, 8)
    assert simulate(row, 20, 7) == simulate(row, 20, 7)
    assert simulate_usual(UsualRule.WELCH, row, 20, 7) == simulate_usual(UsualRule.WELCH, row, 20, 7)


def test_clear_cases_come_out_clearly() -> None:
    """With little noise a healthy patch passes, a large loss is held and then confirmed."""
    healthy = simulate(Scenario(0.0, 0.001, 8), 100, 1)
    assert healthy.final[Verdict.PASS] > 0.95
    loss = simulate(Scenario(-0.03, 0.001, 8), 100, 1)
    assert loss.first[Verdict.REGRESSED] > 0.95
    assert loss.final[Verdict.REGRESSED] > 0.95
    assert loss.mean_pairs < 3
    assert simulate(Scenario(-0.03, 0.0001, 8), 3, 1).mean_pairs == 2


def test_outliers_end_open() -> None:
    """A lane where one boot in ten is a tenth slower cannot tell, and does not pretend to."""
    shares = simulate(Scenario(0.0, 0.003, 8, DISTURBANCES[-1]), 200, 1)
    assert shares.final[Verdict.INCONCLUSIVE] > 0.7
    assert shares.final.get(Verdict.REGRESSED, 0) <= 0.01


def test_the_rows_are_those_that_were_promised() -> None:
    """Effects, noises and disturbances of the table are what the page says, as fractions."""
    assert EFFECTS == (0.0, -0.005, -0.01, -0.02, -0.03)
    assert NOISES == (0.001, 0.003, 0.009)
    assert PAIRS == (2, 4, 6, 8)
    assert USUAL_BOOTS == (2, 3, 5, 8)
    assert (AA_SESSIONS, AA_PAIRS) == (4, 8)
    assert [(one.drift, one.outlier_loss) for one in DISTURBANCES] == [
        (0.0, 0.0),
        (-0.001, 0.0),
        (0.0, 0.01),
        (0.0, 0.03),
        (0.0, 0.1),
    ]


def test_shares_are_of_all_repeats() -> None:
    """First and final shares each add up to 1, and a usual rule's share lies between 0 and 1."""
    row = Scenario(-0.02, 0.001, 4)
    shares = simulate(row, 40, 3)
    assert sum(shares.first.values()) == pytest.approx(1)
    assert sum(shares.final.values()) == pytest.approx(1)
    assert simulate_usual(UsualRule.THRESHOLD, row, 40, 3) == 1
