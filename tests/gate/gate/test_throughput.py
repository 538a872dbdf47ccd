"""Boots of a session: whether they may be compared, when they are enough, and the records that they make."""

from __future__ import annotations

import dataclasses
import math

import pytest
from msgspec.structs import replace

from ci.gate.ab import Design, Estimate, Noise
from ci.gate.throughput import (
    Judged,
    awaits_confirmation,
    boot_deviation,
    enough,
    judge_points,
    mean_of_subject,
    records_of,
    results_of,
    session_of,
    unread_problems,
)
from ci.gate.verdict import Verdict
from ci.results.records import AbSession
from ci.results.throughput import BootMeasure, Number
from tests.gate.gate.boots import (
    ARMS,
    DESIGN,
    JUDGE,
    POINT,
    PREFILL,
    QUIET,
    boot,
    boots,
    changed,
    head,
    point,
    two_points,
)


@pytest.mark.parametrize(
    ("pairs", "ratio", "words"),
    [
        (2, 1.03, f"red is certain: step_ms of {POINT}"),
        (2, 0.97, "every prompt is decided"),
        (2, 1.0, "every prompt is decided"),
        (2, 1.005, None),
    ],
)
def test_enough(pairs: int, ratio: float, words: str | None) -> None:
    """A session ends as soon as red is certain or all is decided, and goes on while it is open."""
    assert enough(head(), boots(pairs, ratio), [JUDGE], 0.0) == words


def test_nobody_looks_between_looks() -> None:
    """With looks after 4, 8, 12 and 16 pairs, two pairs decide nothing, however clear they are."""
    long = [dataclasses.replace(JUDGE, design=Design(0.005, 16))]
    assert enough(head(pairs=16), boots(2, 1.2), long, 0.0) is None
    assert enough(head(pairs=16), boots(4, 1.2), long, 0.0) == f"red is certain: step_ms of {POINT}"


def test_noise_is_measured_to_the_end() -> None:
    """An arm against itself decides nothing early."""
    same = ("patched", "patched")
    its = [replace(one, arm="patched") for one in boots(2)]
    assert enough(head(arms=same), its, [JUDGE], 0.0) is None
    bad = changed(its, 1, replace(its[1], problems=("cut",)))
    assert (enough(head(arms=same), bad, [JUDGE], 0.0) or "").startswith("invalid")


def test_judged_metric() -> None:
    """Steps are judged by their time, tokens by their rate: only the latter sees fewer tokens per step."""
    fewer = [
        replace(one, points=(point(26.0 + one.place / 100, steps=133 if one.letter == "A" else 153),))
        for one in boots(4)
    ]
    (by_steps,) = judge_points(head(), fewer, [JUDGE])
    (by_tokens,) = judge_points(
        head(), fewer, [dataclasses.replace(JUDGE, metric="decode_tok_s", higher_is_better=True)]
    )
    assert by_steps.verdict is Verdict.PASS
    assert by_tokens.verdict is Verdict.REGRESSED


def slow_prefill(its: list[BootMeasure], ratio: float) -> list[BootMeasure]:
    """The boots with another time of arm B's prefill, none quite like another."""
    return [
        replace(
            one,
            points=tuple(
                replace(
                    each,
                    prefill_ms=Number((900.0 + one.place % 3) * (ratio if one.letter == "B" else 1.0)),
                )
                for each in one.points
            ),
        )
        for one in its
    ]


def test_every_judged_metric() -> None:
    """What the policy judges beside the profile's metric ends, holds and decides a session like that one."""
    both, slower = [JUDGE, PREFILL], slow_prefill(boots(2), 1.1)
    assert enough(head(), slow_prefill(boots(2), 1.0), both, 0.0) == "every prompt is decided"
    assert enough(head(), slower, both, 0.0) == f"red is certain: prefill_ms of {POINT}"
    assert not awaits_confirmation(head(), slower, [JUDGE], 0.0)
    assert awaits_confirmation(head(), slower, both, 0.0)
    cut = changed(slower, 1, replace(slower[1], problems=("x",)))
    assert awaits_confirmation(head(), cut, both, 0.0) is False
    records = records_of("steps", head("run-2"), slower, (head("run-1"), slower))
    assert [one.verdict for one in results_of(records, "steps", both)] == [Verdict.PASS, Verdict.REGRESSED]
    undecided = slow_prefill(boots(2), 1.05)
    assert enough(head(), undecided, both, 0.0) is None


def test_what_no_fresh_session_can_change_is_not_held() -> None:
    """An arm against itself, and a session of which another metric cannot be read."""
    slower = boots(2, 1.05)
    itself = ("patched", "patched")
    same = boots(2, 1.05)
    same = [replace(one, arm="patched") for one in same]
    assert awaits_confirmation(head(), slower, [JUDGE], 0.0)
    assert not awaits_confirmation(head(arms=itself), same, [JUDGE], 0.0)
    assert [one.verdict for one in judge_points(head(arms=itself), same, [JUDGE])] == [Verdict.INCONCLUSIVE]
    unread = [replace(one, points=(replace(one.points[0], prefill_ms=Number(None, "x")),)) for one in slower]
    assert not awaits_confirmation(head(), unread, [JUDGE, PREFILL], 0.0)


def test_what_the_first_session_left_open_to_its_end_stays_open() -> None:
    """No boot of the confirming session can change it, so none is run for it."""
    both = replace(head("run-1"), points=(POINT, "second")), replace(head("run-2"), points=(POINT, "second"))
    whole = two_points(boots(8, 1.02), boots(8, 1.005))
    fresh = two_points(boots(2), boots(2, 1.005))
    slow, open_ = judge_points(both[1], fresh, [JUDGE], (both[0], whole))
    assert (slow.before, slow.verdict, slow.closed) == (Verdict.REGRESSED, Verdict.PASS, False)
    assert (open_.before, open_.verdict, open_.closed) == (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE, True)
    assert enough(both[1], fresh, [JUDGE], 0.0, (both[0], whole)) == "every prompt is decided"
    cut = both[0], whole[:4]
    assert not judge_points(both[1], fresh, [JUDGE], cut)[1].closed
    assert enough(both[1], fresh, [JUDGE], 0.0, cut) is None


def test_records() -> None:
    """The paired metrics carry their boots, the value is the mean of arm B; counts stand alone."""
    its = boots(2, 1.02)
    found = {record.metric: record for record in records_of("steps", head(), its)}
    assert {record.case for record in found.values()} == {f"steps-{POINT}"}
    step = found["step_ms"]
    values = [one.points[0].step_ms.value for one in its]
    assert step.sessions == (AbSession("run-1", ARMS, "ABBA", tuple(values)),)  # type: ignore[arg-type]
    assert step.value == pytest.approx((values[1] + values[2]) / 2)  # type: ignore[operator]
    assert (step.unit, found["decode_tok_s"].unit) == ("ms", "tok/s")
    assert (found["prompt_tokens"].value, found["texts"].value) == (6747, 1)


@pytest.mark.parametrize(
    ("its", "refused", "reason"),
    [
        ([], (), "no boot was run"),
        ([], ("census of patched: no line",), "census of patched: no line"),
        (boots(2), ("census of patched: no line",), "census of patched: no line"),
    ],
)
def test_records_of_nothing(its: list[BootMeasure], refused: tuple[str, ...], reason: str) -> None:
    """Where nothing was timed, or nothing may be compared, no record has a value, and each says why."""
    for record in records_of("steps", head(), its, refused=refused):
        assert (record.value, record.reason) == (None, f"the session is invalid: {reason}")


def test_any_judged_metric_that_is_unread_ends_a_session() -> None:
    """Not only the first: the last line has to be able to name a verdict on each."""
    unread = Number(None, "no first token")
    its = [replace(one, points=(replace(one.points[0], prefill_ms=unread),)) for one in boots(2)]
    words = f"prefill_ms of {POINT} cannot be judged: boot 0: no first token"
    assert unread_problems(head(), its, [JUDGE, PREFILL]) == [words]
    assert enough(head(), its, [JUDGE, PREFILL], 0.0) == f"invalid: {words}"
    assert unread_problems(head(), boots(2), [JUDGE, PREFILL]) == []


def test_text_divergence_is_counted() -> None:
    """Arms that write other texts are no failure; how many texts there were is on record."""
    its = [replace(one, points=(point(26.0, text=one.letter),)) for one in boots(2)]
    texts = next(record for record in records_of("steps", head(), its) if record.metric == "texts")
    assert (texts.value, texts.reason) == (2, None)


def test_unread_steps() -> None:
    """Without a count of steps the time per step is None with its reason; the rate of tokens stays."""
    its = boots(2)
    unread = Number(None, "/metrics has no iterations")
    its[2] = replace(its[2], points=(replace(point(26.0), step_ms=unread),))
    found = {record.metric: record for record in records_of("steps", head(), its)}
    assert (found["step_ms"].value, found["step_ms"].reason) == (None, "boot 2: /metrics has no iterations")
    assert found["decode_tok_s"].value is not None
    why = "boot 2: /metrics has no iterations"
    assert session_of(head(), its, POINT, "step_ms") == why
    (judged,) = judge_points(head(), its, [JUDGE])
    assert judged == Judged(POINT, "step_ms", Verdict.INVALID, Estimate(0, 0.0), DESIGN, why)
    for arms in (ARMS, ("patched", "patched")):
        its = [replace(one, arm=arms["AB".index(one.letter)]) for one in its]
        words = f"invalid: step_ms of {POINT} cannot be judged: {why}"
        assert enough(head(arms=arms), its, [JUDGE], 0.0) == words
        (result,) = results_of(records_of("steps", head(arms=arms), its), "steps", [JUDGE])
        assert (result.verdict, result.why) == (Verdict.INVALID, why)


def test_confirmation() -> None:
    """A confirming session stands behind the first and gives the value; its arms and prompts are the same."""
    first, second = boots(2, 1.03), boots(2, 1.03, seed=2)
    step = records_of("steps", head("run-2"), second, (head("run-1"), first))[0]
    assert [one.run for one in step.sessions] == ["run-1", "run-2"]
    assert step.value == mean_of_subject(step.sessions[1]) != mean_of_subject(step.sessions[0])
    broken = changed(first, 2, replace(first[2], problems=("cut",)))
    reasons = {one.reason for one in records_of("steps", head("run-2"), second, (head("run-1"), broken))}
    assert reasons == {"the session is invalid: boot 2 (patched): cut"}
    other = head("run-1", arms=("mq3d", "patched"))
    swapped = [replace(one, arm=other.arms["AB".index(one.letter)]) for one in first]
    more = replace(head("run-1"), points=(POINT, "second"))
    for earlier in ((other, swapped), (more, two_points(first, first))):
        refused = records_of("steps", head("run-2"), second, earlier)[0]
        assert refused.value is None
        assert "something else" in (refused.reason or "")


TWO = {"points": (POINT, "second")}


@pytest.mark.parametrize(
    ("pairs", "ratio", "second", "words"),
    [
        (2, 1.03, 1.0, f"red is certain: step_ms of {POINT}"),
        (2, 1.0, 1.03, None),  # that one is not accused, and nobody knows yet about it
        (8, 1.0, 1.03, None),
        (2, 1.0, 1.0, "every prompt is decided"),
        (
            8,
            1.0056,
            1.0,
            f"red is certain: step_ms of {POINT}",
        ),  # in one case of ten, where one in twenty accuses
    ],
)
def test_a_confirming_session_answers_the_first(
    pairs: int, ratio: float, second: float, words: str | None
) -> None:
    """It goes on until the prompt that came out worse there is decided, by the confirmation's error rate."""
    accused, confirming = replace(head("run-1"), **TWO), replace(head("run-2"), **TWO)
    first = two_points(boots(2, 1.03), boots(2, 1.005, seed=2))
    its = two_points(boots(pairs, ratio, seed=3), boots(pairs, second, seed=4))
    assert enough(accused, first, [JUDGE], 0.0) == f"red is certain: step_ms of {POINT}"
    assert enough(confirming, its, [JUDGE], 0.0, (accused, first)) == words
    shown = judge_points(confirming, its, [JUDGE], (accused, first))[0].verdict
    records = records_of("steps", confirming, its, (accused, first))
    by_point = results_of(records, "steps", [JUDGE])
    assert by_point[0].verdict is shown
    assert by_point[1].verdict is (Verdict.PASS if second == 1.0 else Verdict.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("before", "pairs", "now", "verdicts", "words"),
    [
        ((1.03, 1.0), 2, (1.005, 1.03), "inconclusive regressed", None),
        ((1.0, 1.03), 2, (1.03, 1.03), "regressed regressed", "red is certain: step_ms of second"),
        ((1.03, 1.0), 2, (1.0, 1.005), "pass inconclusive", "every prompt is decided"),
        ((1.03, 1.0), 8, (1.0056, 1.0056), "regressed inconclusive", f"red is certain: step_ms of {POINT}"),
    ],
)
def test_what_the_first_session_cleared(
    before: tuple[float, float], pairs: int, now: tuple[float, float], verdicts: str, words: str | None
) -> None:
    """Red there ends no confirming session, nothing waits for it, and one in ten accuses the other only."""
    accused, confirming = replace(head("run-1"), **TWO), replace(head("run-2"), **TWO)
    first = two_points(boots(2, before[0], seed=1), boots(2, before[1], seed=2))
    its = two_points(boots(pairs, now[0], seed=3), boots(pairs, now[1], seed=3))
    judged = judge_points(confirming, its, [JUDGE], (accused, first))
    assert " ".join(one.verdict.value for one in judged) == verdicts
    assert enough(confirming, its, [JUDGE], 0.0, (accused, first)) == words


def test_what_the_first_session_said_is_of_one_metric() -> None:
    """Red in one metric and cleared in another, the prompt has to be decided in the first only."""
    first, its = slow_prefill(boots(2, 1.03), 1.0), slow_prefill(boots(2, seed=2), 1.05)
    judged = judge_points(head("run-2"), its, [JUDGE, PREFILL], (head("run-1"), first))
    assert [one.before for one in judged] == [Verdict.REGRESSED, Verdict.PASS]
    assert [one.verdict for one in judged] == [Verdict.PASS, Verdict.INCONCLUSIVE]
    words = enough(head("run-2"), its, [JUDGE, PREFILL], 0.0, (head("run-1"), first))
    assert words == "every prompt is decided"


def test_boot_deviation() -> None:
    """A pair of boots varies as two do; no A/A session, no number."""
    assert boot_deviation([QUIET, QUIET]) == pytest.approx(0.001)
    assert boot_deviation([]) == 0.0
    assert not math.isnan(boot_deviation([Noise()]))


def test_boot_is_kept_whole() -> None:
    """The sample itself has what a boot has."""
    assert isinstance(boot(0, 26.0), BootMeasure)
