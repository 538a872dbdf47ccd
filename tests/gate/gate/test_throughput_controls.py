"""Faults put into recorded boots are noticed by what judges real ones."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from ci.gate.ab import ERROR, Design, Noise, decide_session, pair_ratios
from ci.gate.throughput import Judge, enough, session_of, session_problems
from ci.gate.throughput_controls import (
    INJECTED_LOSS,
    Injection,
    injected,
    injections,
    plain_loss,
    poisoned,
    slowed,
)
from ci.gate.verdict import Verdict
from ci.results.records import AbSession
from ci.results.throughput import Number
from tests.gate.gate.boots import POINT, boots, head, point

DESIGN = Design(0.005, 8)
QUIET = Noise(squares=30 * 2e-6, df=30, sessions=5)
"""A lane whose boots vary by 0.1%."""
JUDGE = Judge("step_ms", higher_is_better=False, design=DESIGN, noise_of=lambda _point: Noise())


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.4])
@pytest.mark.parametrize("metric", ["step_ms", "decode_tok_s"])
def test_injected_loss_is_found(ratio: float, metric: str) -> None:
    """A loss of 10% is found in the boots of a session, whatever their own difference was."""
    session = session_of(head(), boots(4, ratio, noise=0.003), POINT, metric)
    assert isinstance(session, AbSession)
    higher = metric == "decode_tok_s"
    worse = injected(session, higher, INJECTED_LOSS)
    ratios = pair_ratios(worse, higher)
    assert sum(ratios) / len(ratios) == pytest.approx(-0.10536, abs=1e-4)
    assert decide_session(ratios, DESIGN, Noise(), ERROR)[0] is Verdict.REGRESSED
    assert worse.values[0] == session.values[0]
    assert INJECTED_LOSS == 0.10


def test_loss_that_drowns_in_noise_is_not_found() -> None:
    """The boots' own spread stays: a session too noisy to see 10% does not claim to."""
    session = session_of(head(), boots(4, noise=0.2, seed=5), POINT, "step_ms")
    assert isinstance(session, AbSession)
    verdict, _ = decide_session(
        pair_ratios(injected(session, False, INJECTED_LOSS), False), DESIGN, Noise(), ERROR
    )
    assert verdict is not Verdict.REGRESSED


def test_a_plain_gain_in_noisy_boots() -> None:
    """It is decided where a loss of 10% would drown; the control's loss grows with the noise."""
    its, quiet = boots(8, 0.45, noise=0.04, seed=3), boots(8, 0.45, noise=0.001, seed=3)
    assert enough(head(), its[:8], [JUDGE], 0.0) == "every prompt is decided"
    noisy, long, least = (injections(head(), some, JUDGE)[0] for some in (its[:8], its, quiet))
    assert 0.2 < noisy.loss < 0.5
    assert long.loss == least.loss == INJECTED_LOSS
    assert noisy.found
    assert long.found
    assert least.found


def test_red_in_noisy_boots_is_red() -> None:
    """What is certainly slower stays so, though a loss of 10% could not have been told from nothing."""
    its = boots(4, 2.2, noise=0.04, seed=3)
    assert enough(head(), its, [JUDGE], 0.0) == f"red is certain: step_ms of {POINT}"
    assert [one.found for one in injections(head(), its, JUDGE)] == [True]


def test_plain_loss() -> None:
    """Twice as far below the margin as the interval of the last look that was reached goes."""
    ratios = (0.30, 0.02, -0.10, 0.08, 0.05, 0.21, -0.30, 0.40)
    for pairs in (4, 7):
        verdict, estimate = decide_session(ratios[:pairs], DESIGN, Noise(), ERROR)
        assert verdict is Verdict.INCONCLUSIVE
        assert estimate.upper is not None
        left = (1 - 0.005) * math.exp(-2 * (estimate.upper - estimate.effect))
        assert plain_loss(ratios[:pairs], DESIGN, Noise()) == pytest.approx(1 - left)
        assert plain_loss(ratios[:pairs], DESIGN, QUIET) > INJECTED_LOSS  # too noisy to be of that lane
    assert plain_loss(ratios[:1], DESIGN, Noise()) == INJECTED_LOSS


def test_nothing_is_found_without_an_interval() -> None:
    """Two pairs have no spread, and so have boots that are equal to the last digit."""
    for its in (boots(2, noise=0.01), boots(8, noise=0.0)):
        assert injections(head(), its, JUDGE) == [Injection(POINT, INJECTED_LOSS, found=False)]


def test_unread_steps_are_blind() -> None:
    """Where a time per step is not known, no loss could be found."""
    its = boots(2)
    its[2] = replace(its[2], points=(replace(point(26.0), step_ms=Number(None, "no iterations")),))
    assert injections(head(), its, JUDGE) == [Injection(POINT, INJECTED_LOSS, found=False)]


def test_poison_is_caught_without_a_count_of_steps() -> None:
    """Where the scheduler's iterations cannot be read, the rate of tokens shows it."""
    unread = Number(None, "/metrics not served")
    good = [
        replace(one, points=(replace(one.points[0], step_ms=unread, isolated_step_ms=unread),))
        for one in boots(4, noise=0.0)
    ]
    assert session_problems(head(), good) == []
    problems = session_problems(head(), poisoned(good))
    assert len(problems) == 2
    assert all("2.60 times" in one and "a poisoned artifact" in one for one in problems)


def test_poison_is_caught_and_named() -> None:
    """The simulated artifact: the first boot of each arm at full speed, the others 2.6 times slower."""
    good = boots(4, noise=0.0)
    assert session_problems(head(), good) == []
    bad = poisoned(good)
    assert [one.lineage for one in bad] == ["cold", "cold", *["warm"] * 6]
    assert {(one.modules_loaded, one.modules_compiled) for one in bad[:2]} == {(0, 2)}
    assert {(one.modules_loaded, one.modules_compiled) for one in bad[2:]} == {(2, 0)}
    before, after = good[4].points[0], bad[4].points[0]
    for name, factor in (
        *(("step_ms", 2.6), ("isolated_step_ms", 2.6)),
        *(("decode_tok_s", 1 / 2.6), ("isolated_tok_s", 1 / 2.6), ("prefill_ms", 1.0)),
    ):
        assert getattr(after, name).value == pytest.approx(getattr(before, name).value * factor)
    assert bad[0].points == good[0].points
    assert bad[4].points[0].text_sha256 == good[4].points[0].text_sha256
    unread = slowed(replace(before, step_ms=Number(None, "no count")), 2.6)
    assert unread.step_ms == Number(None, "no count")
    problems = session_problems(head(), bad)
    assert len(problems) == 2
    assert all("2.6" in one and "poisoned artifact" in one and "equal text" in one for one in problems)
