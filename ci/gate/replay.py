"""The published throughput tables under our rule: what they can support, and what they cannot.

Per-boot values were not published, so each table is read in every way that its
printed numbers allow; only a verdict on which all readings agree is given.
Boots ran A B A B, so a drift would not have cancelled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from statistics import fmean, variance

from ci.gate.ab import ERROR, Design, Estimate, decide_once
from ci.gate.looks import PAIRS_PER_BLOCK
from ci.gate.student import t_quantile
from ci.gate.verdict import Verdict

MARGIN = 0.005
DESIGN = Design(MARGIN, PAIRS_PER_BLOCK)
RANGE_OF_THREE = 1.693
"""Expected range of three normal values in standard deviations (control-chart constant d2)."""


@dataclass(frozen=True)
class Reading:
    """One way to read a table: the mean of its pairs and their standard deviation, as log ratios."""

    effect: float
    deviation: float
    pairs: int


@dataclass(frozen=True)
class Published:
    """One row of the published tables."""

    name: str
    numbers: str
    """What was printed."""
    readings: tuple[Reading, ...]
    """Empty where nothing was printed from which a spread follows."""
    remark: str


@dataclass(frozen=True)
class Replayed:
    """What our rule says about it."""

    published: Published
    verdict: Verdict
    estimates: tuple[Estimate, ...]


def replay() -> tuple[Replayed, ...]:
    """Return the verdict on every published throughput row."""
    return tuple(_replay_one(one) for one in PUBLISHED)


def _replay_one(published: Published) -> Replayed:
    judged = [_judge(reading) for reading in published.readings]
    verdicts = {verdict for verdict, _ in judged}
    verdict = verdicts.pop() if len(verdicts) == 1 else Verdict.INCONCLUSIVE
    return Replayed(published, verdict, tuple(estimate for _, estimate in judged))


def _judge(reading: Reading) -> tuple[Verdict, Estimate]:
    df = reading.pairs - 1
    error = reading.deviation / math.sqrt(reading.pairs)
    reach = t_quantile(ERROR, df) * error
    return decide_once(reading.effect, error, reach, df, reading.pairs, DESIGN)


def _of_two_boots(subject: float, reference: float, spreads: tuple[float, float]) -> tuple[Reading, ...]:
    """Two boots per arm: ranges give the two values, but not which boots were a pair."""
    effect = math.log(subject / reference)
    return tuple(Reading(effect, abs(spreads[0] + sign * spreads[1]) / math.sqrt(2), 2) for sign in (1, -1))


def _of_three_boots(subject: float, reference: float, spread: float) -> tuple[Reading, ...]:
    """Three boots per arm with one printed range: independent boots of that range, or their worst case."""
    effect = math.log(subject / reference)
    usual = spread / RANGE_OF_THREE * math.sqrt(2)
    worst = 2 * spread / math.sqrt(3)  # two boots at one end, and the arms opposed
    return tuple(Reading(effect, deviation, 3) for deviation in (usual, worst))


def _of_unsigned_pairs(differences: tuple[float, float]) -> tuple[Reading, ...]:
    """The differences of both pairs were printed without a sign."""
    signed = [[sign * one for sign, one in zip(signs, differences, strict=True)] for signs in _SIGNS]
    return _of_pairs(signed)


def _of_pairs(many: Iterable[list[float]]) -> tuple[Reading, ...]:
    return tuple(Reading(fmean(pairs), math.sqrt(variance(pairs)), len(pairs)) for pairs in many)


_SIGNS = tuple(product((1, -1), repeat=2))

PUBLISHED = (
    Published(
        "3090, 6,747 tokens, instrumentation off, tok/s",
        "110.88 against 110.67, 2 boots per arm, ranges 0.36% and 0.09%",
        _of_two_boots(110.88, 110.67, (0.0036, 0.0009)),
        "one degree of freedom; which boots were a pair is not printed, and either way is too wide",
    ),
    Published(
        "3090, 6,747 tokens, instrumentation on, tok/s",
        "110.77 against 110.63, 3 boots per arm, range 0.54%",
        _of_three_boots(110.77, 110.63, 0.0054),
        "the range is printed once for both arms; the instrument ran during the measurement",
    ),
    Published(
        "3090, 68,013 tokens, instrumentation on, tok/s",
        "44.6 against 44.6, 2 boots per arm, no range",
        (),
        "no spread and a resolution of 0.2%: no interval can be computed, so nothing is excluded",
    ),
    Published(
        "4090, 6,747 tokens, ms per step",
        "26.0 ms, pairs differ by 0.08% and 0.07%",
        _of_unsigned_pairs((0.0008, 0.0007)),
        "whatever the signs, a loss of the margin is excluded",
    ),
    Published(
        "4090, 68,013 tokens, ms per step",
        "38.1 ms, pairs differ by 0.44% and 0.20%",
        _of_unsigned_pairs((0.0044, 0.0020)),
        "two pairs this far apart leave one degree of freedom and a wide interval",
    ),
    Published(
        "4090, 6,747 tokens, tok/s, from the step counts",
        "512 tokens in 133 and 153 steps (stock), 143 and 152 (patched)",
        _of_pairs([[math.log(133 / 143), math.log(153 / 152)]]),
        "two stock boots already differ by 14% in steps, so tok/s says nothing about an arm on this card: "
        "ms per step, with a spread of at most 0.9%, does",
    ),
)
