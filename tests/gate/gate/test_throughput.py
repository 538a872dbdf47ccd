"""Boots of a session: whether they may be compared, when they are enough, and the records that they make."""

from __future__ import annotations

import dataclasses
import math

import pytest
from msgspec.structs import replace

from ci.gate.ab import Design, Estimate, Noise
from ci.gate.throughput import (
    PACES,
    Judge,
    Judged,
    awaits_confirmation,
    boot_deviation,
    disagreements,
    enough,
    judge_points,
    records_of,
    results_of,
    session_of,
    session_problems,
    unread_problems,
)
from ci.gate.verdict import Verdict
from ci.results.records import AbSession
from ci.results.throughput import BootMeasure, Number
from tests.gate.gate.boots import ARMS, POINT, boot, boots, changed, head, point

DESIGN = Design(0.005, 8)
QUIET = Noise(squares=30 * 2e-6, df=30, sessions=5)
"""A lane whose boots vary by 0.1%: pairs by the square root of two times that."""


JUDGE = Judge("step_ms", higher_is_better=False, design=DESIGN, noise_of=lambda _point: QUIET)
PREFILL = Judge("prefill_ms", higher_is_better=False, design=Design(0.05, 8), noise_of=lambda _point: QUIET)


def test_good_boots() -> None:
    """Boots that agree in all that must be equal may be compared."""
    assert session_problems(head(), boots(2)) == []


SEEN = boot(1, 26.0).seen or pytest.fail("a boot is looked at")
FAULTS: dict[str, tuple[int, dict[str, object], str]] = {
    "problem": (2, {"problems": ("a request failed (no_done)",)}, "boot 2 (patched): a request failed"),
    "arm": (1, {"arm": "mq3d"}, "boot 1 is mq3d, not patched"),
    "pool": (
        3,
        {"pool_tokens": Number(184_000.0)},
        "pool tokens differ: 185373.0 in boot 0, 184000.0 in boot 3",
    ),
    "pool unread": (
        3,
        {"pool_tokens": Number(None, "no line")},
        "boot 3: its pool tokens are not known: no line",
    ),
    "prompt": (1, {"points": (point(26.0, prompt_tokens=6746),)}, f"{POINT}: prompt tokens differ"),
    "other prompt": (1, {"points": (point(26.0, prompt_sha256="q"),)}, f"{POINT}: prompts differ"),
    "generated": (1, {"points": (point(26.0, completion_tokens=500),)}, f"{POINT}: generated tokens differ"),
    "zero": (
        1,
        {"points": (point(26.0, isolated_step_ms=Number(0.0)),)},
        f"boot 1: isolated_step_ms of {POINT} is 0, not a positive number",
    ),
    "negative": (
        2,
        {"points": (point(26.0, decode_tok_s=Number(-1.5)),)},
        f"boot 2: decode_tok_s of {POINT} is -1.5, not a positive number",
    ),
    "not measured": (1, {"points": ()}, f"boot 1 did not measure {POINT}"),
    "not looked at": (1, {"seen": None}, "boot 1 (patched): no process of the engine was looked at"),
    "no process": (1, {"seen": replace(SEEN, processes=0)}, "boot 1 (patched): no process of the engine"),
    "other folder": (
        1,
        {"seen": replace(SEEN, root_first=False)},
        "boot 1 (patched): an engine process did not import vLLM from the arm",
    ),
    "other series": (
        1,
        {"seen": replace(SEEN, series_hash="C")},
        "arm B: series differ: C in boot 1, BBBBBBBB in boot 2",
    ),
    "gpu": (
        3,
        {"machine": {"gpu_uuid": "GPU-2"}},
        "block from boot 0: GPU differ: GPU-1 in boot 0",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_invalid(name: str) -> None:
    """Whatever is not equal, or not what it is taken for, makes the session invalid, and is named."""
    place, fields, words = FAULTS[name]
    good = boots(2)
    bad = changed(good, place, replace(good[place], **fields))
    problems = session_problems(head(), bad)
    assert any(words in problem for problem in problems), problems
    assert enough(head(), bad, [JUDGE], 0.0) == f"invalid: {problems[0]}"
    for record in records_of("steps", head(), bad):
        assert record.value is None
        assert record.reason == f"the session is invalid: {problems[0]}"
        assert record.sessions == ()


def test_pools_that_nobody_could_read() -> None:
    """Unknown in every boot is not equal in every boot."""
    unread = [replace(one, pool_tokens=Number(None, "no line")) for one in boots(2)]
    assert session_problems(head(), unread) == [
        f"boot {place}: its pool tokens are not known: no line" for place in range(4)
    ]


def test_flags_of_an_arm_are_those_of_its_processes() -> None:
    """Judged from the records alone, where each boot says what its processes had."""
    arms = ("patched+X=0", "patched+X=1")

    def flagged(b: str) -> list[BootMeasure]:
        values = {"A": "0", "B": b}
        return [
            replace(
                one, arm=arms["AB".index(one.letter)], seen=replace(SEEN, flags={"X": values[one.letter]})
            )
            for one in boots(2)
        ]

    assert session_problems(head(arms=arms), flagged("1")) == []
    assert session_problems(head(arms=arms), flagged("0")) == [
        f"boot {place} (patched+X=1): X was '0' in the engine's processes" for place in (1, 2)
    ]
    good = flagged("1")
    unset = changed(good, 1, replace(good[1], seen=replace(SEEN, flags={})))
    assert session_problems(head(arms=arms), unset) == [
        "boot 1 (patched+X=1): X was None in the engine's processes"
    ]


@pytest.mark.parametrize("value", [0.0, -1.0, 5e-324, 1e300, math.inf, math.nan])
def test_a_value_that_no_ratio_can_be_made_of(value: float) -> None:
    """It is judged invalid by name, not by a traceback."""
    bad = changed(boots(2), 3, boot(3, 26.0, points=(replace(point(26.0), step_ms=Number(value)),)))
    words = f"boot 3: step_ms of {POINT} is {value:g}, not a positive number from 1e-09 to 1e+09"
    assert session_of(head(), bad, POINT, "step_ms") == words
    assert judge_points(head(), bad, [JUDGE])[0].verdict is Verdict.INVALID
    assert enough(head(), bad, [JUDGE], 0.0) == f"invalid: {words}"


@pytest.mark.parametrize("value", [1e-9, 0.5, 1e9])
def test_a_small_or_large_value_is_a_value(value: float) -> None:
    """Half a millisecond is as good as any: the limits are nobody's measurement, and belong to it."""
    its = changed(boots(2), 3, boot(3, 26.0, points=(replace(point(26.0), step_ms=Number(value)),)))
    assert session_problems(head(), its) == []


def test_blocks_may_run_on_two_cards_of_a_kind() -> None:
    """Within a block the card is one; another block may have another one."""
    two = [replace(one, machine={"gpu_uuid": f"GPU-{one.place // 4}"}) for one in boots(4)]
    assert session_problems(head(), two) == []
    mixed = changed(two, 5, replace(two[5], machine={"gpu_uuid": "GPU-0"}))
    assert session_problems(head(), mixed) == [
        "block from boot 4: GPU differ: GPU-1 in boot 4, GPU-0 in boot 5"
    ]


def test_other_plan_lines() -> None:
    """Boots of one arm that print other plan lines are not one arm."""
    good = boots(2)
    seen = replace(good[3].seen, scratch="0 loaded, 0 adopted, 4 late")
    assert (
        "arm A: plan lines differ"
        in session_problems(head(), changed(good, 3, replace(good[3], seen=seen)))[0]
    )


def test_code_of_one_session_is_compiled_once() -> None:
    """An arm that compiles again in a shared lineage lost its cache; where each boot has its own it must."""
    cold, warm = {"modules_loaded": 0, "modules_compiled": 2}, {"modules_loaded": 2, "modules_compiled": 0}
    its = [replace(one, **(cold if one.place in (0, 1, 4, 5) else warm)) for one in boots(4)]
    shared = replace(head(), conditions={"lineage": "shared:x"})
    again = "compiled again what boot {} had compiled: the session's cache was removed in between"
    assert session_problems(shared, its) == [f"boot 4 {again.format(0)}", f"boot 5 {again.format(1)}"]
    assert session_problems(shared, its[:4]) == []
    soon = changed(its[:4], 3, replace(its[3], **cold))
    assert session_problems(shared, soon) == [f"boot 3 {again.format(0)}"]
    each = [replace(one, **cold) for one in boots(4)]
    assert session_problems(replace(head(), conditions={"lineage": "fresh"}), each) == []


def test_no_lane_is_so_noisy_that_poison_is_noise() -> None:
    """Boots of one arm and one cache, one twice as slow: no noise, whatever the lane's A/A sessions say."""
    warm = {"lineage": "warm", "modules_loaded": 2, "modules_compiled": 0}
    for times, found in ((1.9, 0), (2.6, 1)):
        slow = [replace(boot(place, 26.0 * (times if place else 1.0)), **warm) for place in (0, 3)]
        assert len(disagreements(slow, head(), 0.5)) == found


def test_one_cache_disagrees() -> None:
    """An arm that differs from itself by more than noise, from one cache, is no measurement."""
    warm = {"lineage": "warm", "modules_loaded": 2, "modules_compiled": 0}
    loaded = [replace(one, **warm) for one in boots(2)]
    shared = changed(loaded, 1, boots(2)[1])
    assert session_problems(head(), shared) == []
    words = "no boot compiled the code that the others loaded, so a poisoned artifact could not be seen"
    assert session_problems(head(), loaded) == [words]
    assert enough(head(), loaded, [JUDGE], 0.0) == f"invalid: {words}"
    slow = changed(shared, 3, replace(shared[3], points=(point(26.0 * 1.1),)))
    (problem,) = session_problems(head(), slow)
    assert "boots 0 and 3 of token-units differ 1.10 times, more than 2.0% allows" in problem
    assert session_problems(head(), slow, noise_of_boot=0.0205) == []
    assert session_problems(head(), slow, noise_of_boot=0.0195) == [problem.replace("2.0%", "9.8%")]
    assert records_of("steps", head(), slow)[0].value is None


def test_fresh_boots_may_be_noisy() -> None:
    """Boots with a cache each share no artifact: their spread is noise, and widens the interval."""
    good = boots(2)
    assert session_problems(head(), changed(good, 3, boot(3, 26.0 * 1.1))) == []


def test_poisoned_artifact_is_named() -> None:
    """Full speed where it was compiled, 2.6 times slower where it was loaded, equal text: it is named."""
    wrote = boot(0, 26.0)
    loads = boot(3, 26.0 * 2.6, lineage="warm", modules_loaded=2, modules_compiled=0)
    (found,) = disagreements([wrote, loads], head(), 0.0)
    assert "boots 0 and 3 of token-units differ 2.60 times" in found
    assert "with equal text: a poisoned artifact in the compile cache" in found
    other = replace(loads, points=(point(26.0 * 2.6, text="u"),))
    assert "with other text" in disagreements([wrote, other], head(), 0.0)[0]
    one_module = replace(loads, modules_loaded=1)
    assert "a poisoned artifact" in disagreements([wrote, one_module], head(), 0.0)[0]
    assert (
        disagreements([wrote, boot(3, 26.1, lineage="warm", modules_loaded=2, modules_compiled=0)], head(), 0)
        == []
    )


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ("decode_tok_s", "differ 2.60 times: full speed where the code was compiled"),
        ("isolated_tok_s", "differ 2.60 times: full speed where the code was compiled"),
        ("isolated_step_ms", "differ 2.60 times: full speed where the code was compiled"),
        (
            None,
            "nothing tells how fast all boots of token-units were, so a poisoned artifact could not be seen",
        ),
    ],
)
def test_poison_without_a_count_of_steps(known: str | None, words: str) -> None:
    """Boots of one cache are held against each other by what all of them know, and are invalid without it."""
    lost = {metric: Number(None, "/metrics not served") for metric in PACES if metric != known}
    its = [
        boot(0, 26.0, points=(replace(point(26.0), **lost),)),
        boot(3, 26.0, modules_loaded=2, modules_compiled=0, points=(replace(point(67.6), **lost),)),
    ]
    (found,) = disagreements(its, head(), 0.0)
    assert words in found


@pytest.mark.parametrize(
    ("fast", "slow"),
    [
        pytest.param((3, 1), (0, 2), id="the fast one loaded too"),
        pytest.param((0, 0), (0, 2), id="the fast one compiled nothing"),
        pytest.param((3, 0), (3, 0), id="the slow one loaded nothing"),
    ],
)
def test_a_difference_of_another_kind(fast: tuple[int, int], slow: tuple[int, int]) -> None:
    """Only code that was fast where it was written and slow where it is loaded is a poisoned artifact."""
    boots = [
        boot(place, ms, lineage="warm", modules_compiled=compiled, modules_loaded=loaded)
        for place, ms, (compiled, loaded) in ((0, 26.0, fast), (3, 26.0 * 2.6, slow), (4, 27.0, (0, 1)))
    ]
    (found,) = disagreements(boots, head(), 0.0)
    assert "allows for one arm" in found
    assert "poisoned" not in found


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
    """A confirming session stands behind the first; one of other arms makes the record invalid."""
    first, second = boots(2, 1.03), boots(2, 1.03, seed=2)
    step = records_of("steps", head("run-2"), second, (head("run-1"), first))[0]
    assert [one.run for one in step.sessions] == ["run-1", "run-2"]
    broken = changed(first, 2, replace(first[2], problems=("cut",)))
    reasons = {one.reason for one in records_of("steps", head("run-2"), second, (head("run-1"), broken))}
    assert reasons == {"the session is invalid: boot 2 (patched): cut"}
    other = head("run-1", arms=("mq3d", "patched"))
    swapped = [replace(one, arm=other.arms["AB".index(one.letter)]) for one in first]
    refused = records_of("steps", head("run-2"), second, (other, swapped))[0]
    assert refused.value is None
    assert "something else" in (refused.reason or "")


def test_boot_deviation() -> None:
    """A pair of boots varies as two do; no A/A session, no number."""
    assert boot_deviation([QUIET, QUIET]) == pytest.approx(0.001)
    assert boot_deviation([]) == 0.0
    assert not math.isnan(boot_deviation([Noise()]))


def test_boot_is_kept_whole() -> None:
    """The sample itself has what a boot has."""
    assert isinstance(boot(0, 26.0), BootMeasure)
