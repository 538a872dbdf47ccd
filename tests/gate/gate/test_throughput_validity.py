"""Boots of a session: whether they may be compared, and why not."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from ci.gate.throughput import (
    enough,
    judge_points,
    records_of,
    session_of,
)
from ci.gate.throughput_validity import PACES, disagreements, seen_problems, session_problems
from ci.gate.verdict import Verdict
from ci.results.throughput import BootMeasure, Number
from tests.gate.gate.boots import JUDGE, POINT, boot, boots, changed, head, point


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
    two = replace(good[1], arm="patched+X=1+Y=2", seen=replace(SEEN, flags={"X": "1", "Y": "3"}))
    assert seen_problems(two) == ["Y was '3' in the engine's processes"]


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


@pytest.mark.parametrize("modules", [1, 2])
def test_code_of_one_session_is_compiled_once(modules: int) -> None:
    """An arm that compiles again in a shared lineage lost its cache; where each boot has its own it must."""
    cold = {"modules_loaded": 0, "modules_compiled": modules}
    warm = {"modules_loaded": modules, "modules_compiled": 0}
    its = [replace(one, **(cold if one.place in (0, 1, 4, 5) else warm)) for one in boots(4)]
    shared = replace(head(), conditions={"lineage": "shared:x"})
    again = "compiled again what boot {} had compiled: the session's cache was removed in between"
    assert session_problems(shared, its) == [f"boot 4 {again.format(0)}", f"boot 5 {again.format(1)}"]
    assert session_problems(shared, its[:4]) == []
    soon = changed(its[:4], 3, replace(its[3], **cold))
    assert session_problems(shared, soon) == [f"boot 3 {again.format(0)}"]
    reused = changed(its[:4], 1, replace(its[1], **warm))  # arm B began with what arm A had compiled
    assert session_problems(shared, reused) == []
    lost = changed(reused, 2, replace(its[2], **cold))
    assert session_problems(shared, lost) == [
        "boot 2 compiled again what boot 1 had loaded: the session's cache was removed in between"
    ]
    unread = changed(lost, 1, replace(its[1], modules_loaded=0, modules_compiled=0))
    assert session_problems(shared, unread) == []  # what that boot had is not known
    each = [replace(one, **cold) for one in boots(4)]
    assert session_problems(replace(head(), conditions={"lineage": "fresh"}), each) == []


def test_no_lane_is_so_noisy_that_poison_is_noise() -> None:
    """Boots of one arm and one cache, one twice as slow: no noise, whatever the lane's A/A sessions say."""
    warm = {"lineage": "warm", "modules_loaded": 2, "modules_compiled": 0}
    for times, found in ((1.99, 0), (2.01, 1)):
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
    noisy = records_of("steps", head(), slow, noise_of_boot=0.0205)[0]
    assert noisy.value is not None


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
    one_module = [replace(wrote, modules_compiled=1), replace(loads, modules_loaded=1)]
    assert "a poisoned artifact" in disagreements(one_module, head(), 0.0)[0]
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


@pytest.mark.parametrize("best", range(len(PACES)))
def test_the_best_known_metric_tells_how_fast_a_boot_was(best: int) -> None:
    """Steps before tokens, and as served before alone; what a worse one shows does not count beside it."""
    order = ("step_ms", "isolated_step_ms", "decode_tok_s", "isolated_tok_s")
    lost = dict.fromkeys(order[:best], Number(None, "/metrics not served"))
    fast, slow = replace(point(26.0), **lost), getattr(point(67.6), order[best])
    its = [
        boot(0, 26.0, points=(fast,)),
        boot(3, 26.0, modules_loaded=2, modules_compiled=0, points=(replace(fast, **{order[best]: slow}),)),
    ]
    (found,) = disagreements(its, head(), 0.0)
    assert "differ 2.60 times" in found


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
