"""The rules that people usually apply to two groups of boots; only `calibration` uses them, to compare."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from statistics import fmean, variance

from ci.gate.student import t_tail

LEVEL = 0.05
"""One-sided, as in our own rule."""


class UsualRule(enum.Enum):
    """A rule that says ``regressed`` or nothing."""

    THRESHOLD = "fixed threshold"
    WELCH = "Welch's t"
    MANN_WHITNEY = "Mann-Whitney"


def accuses(rule: UsualRule, reference: Sequence[float], subject: Sequence[float], margin: float) -> bool:
    """Tell whether ``rule`` calls ``subject`` slower; values are speeds, one per boot."""
    if rule is UsualRule.THRESHOLD:
        return fmean(subject) / fmean(reference) - 1 < -margin
    if rule is UsualRule.WELCH:
        return welch_tail(reference, subject) < LEVEL
    return mann_whitney_tail(reference, subject) < LEVEL


def welch_tail(reference: Sequence[float], subject: Sequence[float]) -> float:
    """Return the one-sided p-value for ``subject`` being smaller, with unequal variances."""
    one, two = variance(reference) / len(reference), variance(subject) / len(subject)
    total = one + two
    df = total**2 / (one**2 / (len(reference) - 1) + two**2 / (len(subject) - 1))
    return t_tail((fmean(reference) - fmean(subject)) / math.sqrt(total), df)


def mann_whitney_tail(reference: Sequence[float], subject: Sequence[float]) -> float:
    """Return the exact one-sided p-value for ``subject`` being smaller; values must differ."""
    wins = sum(one < other for one in subject for other in reference)
    counts = _win_counts(len(reference), len(subject))
    return sum(counts[wins:]) / sum(counts)


@lru_cache(maxsize=64)
def _win_counts(reference: int, subject: int) -> tuple[int, ...]:
    """Return how many orders of all values give each number of wins."""
    counts = [0] * (reference * subject + 1)
    for places in combinations(range(reference + subject), subject):
        # The place of the k-th subject value minus k is the number of reference values below it.
        counts[sum(reference - (place - rank) for rank, place in enumerate(places))] += 1
    return tuple(counts)
