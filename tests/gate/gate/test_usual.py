"""The usual rules are as the books have them, or the comparison with them would be unfair."""

from __future__ import annotations

import math

import pytest

from ci.gate.student import t_tail
from ci.gate.usual import UsualRule, accuses, mann_whitney_tail, welch_tail


def test_welch() -> None:
    """A worked example: t = 2.2360680 with equal variances and 8 degrees of freedom, p = 0.02787."""
    assert welch_tail(
        [3.0, 4, 5, 6, 7], [0.7639320, 1.7639320, 2.7639320, 3.7639320, 4.7639320]
    ) == pytest.approx(0.02787, abs=1e-4)


@pytest.mark.parametrize(
    ("reference", "subject", "tail"),
    [
        ([3.0, 4.0], [1.0, 2.0], 1 / 6),
        ([1.0, 2.0], [3.0, 4.0], 1.0),
        ([4.0, 5.0, 6.0], [1.0, 2.0, 3.0], 1 / 20),
        ([1.0, 4.0], [2.0, 3.0], 4 / 6),
    ],
)
def test_mann_whitney(reference: list[float], subject: list[float], tail: float) -> None:
    """Exact tails by counting orders."""
    assert mann_whitney_tail(reference, subject) == pytest.approx(tail)


@pytest.mark.parametrize("rule", UsualRule)
def test_each_rule_accuses_a_clear_loss_and_no_gain(rule: UsualRule) -> None:
    """All three see ten percent in four boots, and none accuses a gain."""
    fast, slow = [100.0, 101, 102, 103], [90.0, 91, 92, 93.5]
    assert accuses(rule, fast, slow, 0.005)
    assert not accuses(rule, slow, fast, 0.005)


def test_ranks_of_few_boots_accuse_nobody() -> None:
    """Two against two cannot reach 5%, and the 1 in 20 of three against three is not below it."""
    pair = ([100.0, 100.1], [50.0, 50.1])
    assert accuses(UsualRule.WELCH, *pair, 0.005)
    assert not accuses(UsualRule.MANN_WHITNEY, *pair, 0.005)
    assert not accuses(UsualRule.MANN_WHITNEY, [4.0, 5.0, 6.0], [1.0, 2.0, 3.0], 0.005)
    assert accuses(UsualRule.MANN_WHITNEY, [4.0, 5.0, 6.0, 7.0], [1.0, 2.0, 3.0], 0.005)


def test_the_threshold_is_the_margin() -> None:
    """The mean may lose the margin, and no more."""
    assert not accuses(UsualRule.THRESHOLD, [128.0], [127.5], 0.00390625)
    assert accuses(UsualRule.THRESHOLD, [128.0], [127.4], 0.00390625)


def test_welch_with_unequal_groups() -> None:
    """Two against four values: the degrees of freedom are those of Welch and Satterthwaite."""
    one, two = 2.0 / 2, (20 / 3) / 4
    df = (one + two) ** 2 / (one**2 / 1 + two**2 / 3)
    t = (20 - 3) / math.sqrt(one + two)
    assert welch_tail([19.0, 21.0], [0.0, 2.0, 4.0, 6.0]) == pytest.approx(t_tail(t, df))
