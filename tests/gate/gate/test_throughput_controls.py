"""Faults put into recorded boots are noticed by what judges real ones."""

from __future__ import annotations

import dataclasses
import math

import pytest
from msgspec.structs import replace

from ci.gate.ab import ERROR, Design, Noise, decide_session, pair_ratios
from ci.gate.throughput import Judge, enough, session_of
from ci.gate.throughput_controls import (
    INJECTED_LOSS,
    Injection,
    injected,
    injections,
    poisoned,
    reach_of,
    slowed,
)
from ci.gate.throughput_validity import session_problems
from ci.gate.verdict import Verdict
from ci.results.records import AbSession
from ci.results.throughput import Number
from tests.gate.gate.boots import DESIGN, POINT, QUIET, boots, head, point, two_points

JUDGE = Judge("step_ms", higher_is_better=False, design=DESIGN, noise_of=lambda _point: Noise())


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.4])
@pytest.mark.parametrize("metric", ["step_ms", "decode_tok_s"])
def test_injected_loss_is_found(ratio: float, metric: str) -> None:
    """A loss of 10% is found in the boots of a session, whatever their own difference was."""
    session = session_of(head(), boots(4, ratio, noise=0.003), POINT, metric)
    assert isinstance(session, AbSession)
    higher = metric == "decode_tok_s"
    worse = injected(session, higher, math.log1p(-INJECTED_LOSS))
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
        pair_ratios(injected(session, False, math.log1p(-INJECTED_LOSS)), False), DESIGN, Noise(), ERROR
    )
    assert verdict is not Verdict.REGRESSED


def test_a_plain_gain_in_noisy_boots() -> None:
    """It is decided where a loss of 10% would drown; the control's loss grows with the noise."""
    its, quiet = boots(8, 0.45, noise=0.04, seed=3), boots(8, 0.45, noise=0.001, seed=3)
    assert enough(head(), its[:8], [JUDGE], 0.0) == "every prompt is decided"
    noisy, long, least = (injections(head(), some, JUDGE)[0] for some in (its[:8], its, quiet))
    assert 0.2 < noisy.loss < 0.5
    assert long.loss == least.loss == pytest.approx(INJECTED_LOSS)
    assert noisy.found
    assert long.found
    assert least.found


def test_red_in_noisy_boots_is_red() -> None:
    """What is certainly slower stays so, though a loss of 10% could not have been told from nothing."""
    its = boots(4, 2.2, noise=0.04, seed=3)
    assert enough(head(), its, [JUDGE], 0.0) == f"red is certain: step_ms of {POINT}"
    assert [one.found for one in injections(head(), its, JUDGE)] == [True]


def test_reach() -> None:
    """That of the last look that was reached; none before the first."""
    ratios = (0.30, 0.02, -0.10, 0.08, 0.05, 0.21, -0.30, 0.40)
    for pairs in (4, 7):
        for noise in (Noise(), QUIET):  # too noisy to be of that lane
            verdict, estimate = decide_session(ratios[:pairs], DESIGN, noise, ERROR)
            assert verdict is Verdict.INCONCLUSIVE
            assert estimate.upper is not None
            assert reach_of(ratios[:pairs], DESIGN, noise) == estimate.upper - estimate.effect
    calm = (0.001, 0.002, 0.001, 0.003)
    assert (reach_of(calm, DESIGN, QUIET) or 0) < (reach_of(calm, DESIGN, Noise()) or 0)
    assert reach_of(ratios[:1], DESIGN, Noise()) is None
    assert reach_of((0.1,) * 4, DESIGN, Noise()) is None


def test_loss_grows_with_the_noise_and_not_with_the_margin() -> None:
    """In quiet boots it is 10%: under a margin so wide that 10% would pass, the control is green."""
    quiet, noisy = boots(4, noise=0.002), boots(4, noise=0.04, seed=3)
    for margin, found in ((0.005, True), (0.05, True), (0.5, False), (0.9, False)):
        judge = dataclasses.replace(JUDGE, design=Design(margin, 8))
        assert injections(head(), quiet, judge) == [Injection(POINT, pytest.approx(INJECTED_LOSS), found)]
        (one,) = injections(head(), noisy, judge)
        assert one.loss > 0.2
        assert one.found is (margin <= 0.05)


@pytest.mark.parametrize("metric", ["step_ms", "decode_tok_s"])
def test_wrong_direction(metric: str) -> None:
    """A loss is more milliseconds and fewer tokens per second, whatever the policy takes for better."""
    for higher in (False, True):
        judge = dataclasses.replace(JUDGE, metric=metric, higher_is_better=higher)
        assert [one.found for one in injections(head(), boots(4, noise=0.003), judge)] == [
            higher is (metric == "decode_tok_s")
        ]


def test_each_prompt_has_its_own_loss_and_noise() -> None:
    """The loss is put into every prompt, each by its own boots and its own A/A sessions."""
    two = replace(head(), points=(POINT, "second"))
    judge = dataclasses.replace(JUDGE, noise_of=lambda point: QUIET if point == POINT else Noise())
    quiet, noisy = injections(two, two_points(boots(4), boots(4, noise=0.04, seed=3)), judge)
    assert (quiet.point, quiet.loss, quiet.found) == (POINT, pytest.approx(INJECTED_LOSS), True)
    assert (noisy.point, noisy.found) == ("second", True)
    assert noisy.loss > 0.2


def test_prompt_without_an_interval() -> None:
    """One that nobody could judge yet, when another one ended the session, does not call the gate broken."""
    two = replace(head(), points=(POINT, "second"))
    judge = dataclasses.replace(JUDGE, noise_of=lambda point: QUIET if point == POINT else Noise())
    its = two_points(boots(2, 1.03), boots(2, noise=0.01))
    assert enough(two, its, [judge], 0.0) == f"red is certain: step_ms of {POINT}"
    assert [(one.point, one.found) for one in injections(two, its, judge)] == [(POINT, True)]
    for its in (boots(2, noise=0.01), boots(8, noise=0.0)):
        assert injections(head(), its, JUDGE) == []


def test_boots_without_measure() -> None:
    """However far boots spread, there is a loss beyond it."""
    wild = [replace(one, points=(point(2.6 * 10.0 ** (6 * (one.place % 3 - 1))),)) for one in boots(4)]
    assert injections(head(), wild, JUDGE) == [Injection(POINT, 1.0, found=True)]


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
