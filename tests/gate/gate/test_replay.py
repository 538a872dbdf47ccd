"""The published throughput tables: what they support and what they do not."""

from __future__ import annotations

import math

import pytest

from ci.gate.replay import Replayed, replay
from ci.gate.verdict import Verdict

ROWS = {one.published.name: one for one in replay()}


def _row(words: str) -> Replayed:
    (row,) = [one for name, one in ROWS.items() if words in name]
    return row


@pytest.mark.parametrize(
    ("words", "verdict", "effect"),
    [
        ("3090, 6,747 tokens, instrumentation off", Verdict.INCONCLUSIVE, 0.0019),
        ("3090, 6,747 tokens, instrumentation on", Verdict.INCONCLUSIVE, 0.0013),
        ("4090, 68,013 tokens, ms", Verdict.INCONCLUSIVE, 0.0032),
        ("4090, 6,747 tokens, ms", Verdict.PASS, 0.00075),
    ],
)
def test_verdicts(words: str, verdict: Verdict, effect: float) -> None:
    """Each row's verdict, with the effect that its printed numbers give."""
    row = _row(words)
    assert row.verdict is verdict
    assert max(one.effect for one in row.estimates) == pytest.approx(effect, abs=5e-5)


def test_two_boots_are_read_in_both_pairings() -> None:
    """Ranges of two boots give their values, not their pairs: (0.36 +- 0.09)% / sqrt 2 per pair."""
    estimates = _row("instrumentation off").estimates
    reach = sorted(one.upper - one.effect for one in estimates if one.upper is not None)
    assert reach == pytest.approx([6.3138 * 0.0027 / 2, 6.3138 * 0.0045 / 2], rel=1e-4)


def test_no_spread_gives_no_interval() -> None:
    """The long prompt on the 3090 was printed without a spread."""
    row = _row("3090, 68,013")
    assert (row.verdict, row.estimates) == (Verdict.INCONCLUSIVE, ())


def test_tok_s_on_the_4090_could_have_seen_nothing() -> None:
    """The step counts of the two stock boots differ so much that only a loss of a quarter would show."""
    (estimate,) = _row("from the step counts").estimates
    assert estimate.detectable is not None
    assert math.expm1(estimate.detectable) < -0.25
    pairs = [math.log(133 / 143), math.log(153 / 152)]
    assert estimate.effect == pytest.approx(sum(pairs) / 2)
    assert estimate.upper is not None
    reach = 6.313752 * abs(pairs[0] - pairs[1]) / 2
    assert estimate.upper - estimate.effect == pytest.approx(reach, rel=1e-5)


def test_three_boots_are_read_from_their_range() -> None:
    """Three boots of range 0.54% have a deviation of 0.54% / 1.693 on average, 2 / sqrt 3 of it at worst."""
    estimates = _row("6,747 tokens, instrumentation on").estimates
    reach = sorted(one.upper - one.effect for one in estimates if one.upper is not None)
    usual, worst = 0.0054 / 1.693 * math.sqrt(2), 2 * 0.0054 / math.sqrt(3)
    assert reach == pytest.approx([2.91999 * one / math.sqrt(3) for one in (usual, worst)], rel=1e-4)
