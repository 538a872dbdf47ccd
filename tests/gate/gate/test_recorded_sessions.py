"""Sessions recorded on an H200 are judged again: the docs say of them what their boots give."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci.commands.throughput_rules import Judging
from ci.commands.throughput_session import measure_of
from ci.engine.abba import SessionError, finished_boots, read_head
from ci.engine.profile import load_profile
from ci.gate.ab import ERROR, Estimate, Noise, estimate_at, pair_ratios, percent
from ci.gate.looks import look_tails
from ci.gate.throughput import Judge, Judged, enough, judge_points, records_of, results_of, session_of
from ci.gate.throughput_controls import INJECTED_LOSS, injections
from ci.gate.throughput_validity import session_problems
from ci.gate.verdict import Verdict
from ci.report.throughput import render_judged, render_texts
from ci.results.records import AbSession
from ci.results.throughput import BootMeasure, SessionHead

SESSIONS = Path(__file__).parent / "sessions"
DOCS = Path(__file__).parents[3] / "docs"
PACKED, UNITS, CAPTURED = "patched-vs-packed", "token-units-vs-patched", "captured"
POINT = "prose-24576"
GOAL_MS = 3.5
SAID = {
    PACKED: "improved: +140.69% after 4 of at most 4 pairs, interval [+130.25%, +151.61%], margin 0.5%; "
    "would have seen a loss of 6.24% in 80% of cases",
    UNITS: "inconclusive: -1.25% after 8 of at most 8 pairs, interval [-3.83%, +1.39%], margin 0.5%; "
    "would have seen a loss of 4.18% in 80% of cases",
}


def recorded(name: str) -> tuple[SessionHead, list[BootMeasure]]:
    """A session as it was written, read as the command reads it."""
    head = read_head(SESSIONS / name / "1")
    assert head is not None
    return head, finished_boots(SESSIONS / name / "1")


def judging(head: SessionHead) -> Judging:
    """What the command judges the session by; the lane had no A/A session when it ran."""
    profile = load_profile(head.profile)
    found = Judging(profile.experiment, str(head.conditions["lane"]), measure_of(profile), head.conditions)
    found.aa = ()
    return found


def judged(head: SessionHead, boots: list[BootMeasure]) -> Judged:
    """The session's only prompt, by its only judged metric."""
    (only,) = judge_points(head, boots, judging(head).judges(head.pairs))
    return only


def times(boots: list[BootMeasure], point: str = POINT) -> list[float]:
    """The judged milliseconds per step, in the order of the boots."""
    found = [one.isolated_step_ms.value for boot in boots if (one := boot.point(point))]
    return [value for value in found if value is not None]


def page(name: str) -> str:
    """A page of the docs, with single blanks between its words."""
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("name", SAID)
def test_verdict(name: str) -> None:
    """Verdict, effect and interval are those that the command printed when the session ended."""
    head, boots = recorded(name)
    by, only = judging(head), judged(head, boots)
    assert len(boots) == 2 * head.pairs
    assert session_problems(head, boots, by.deviation) == []
    assert render_judged([only]) == f"{POINT} isolated_step_ms: {SAID[name]}\n"
    assert render_texts(head, boots) == "texts: the same in all boots\n"
    records = records_of(by.experiment, head, boots, noise_of_boot=by.deviation)
    (result,) = results_of(records, by.experiment, by.judges(head.pairs))
    assert (result.verdict, result.estimates) == (only.verdict, (only.estimate,))


def test_packed_is_under_its_goal() -> None:
    """Every boot of `packed`, not their mean."""
    _, boots = recorded(PACKED)
    packed = times([boot for boot in boots if boot.arm == "packed"])
    assert len(packed) == 4
    assert max(packed) < GOAL_MS


@pytest.mark.parametrize(("name", "verdict"), [(PACKED, Verdict.REGRESSED), (UNITS, Verdict.INCONCLUSIVE)])
def test_swapped_times(name: str, verdict: Verdict) -> None:
    """Each pair's times given to the other arm: what was a gain is a loss of the same size."""
    head, boots = recorded(name)
    swapped = [replace(boot, points=boots[boot.place ^ 1].points) for boot in boots]
    found = judged(head, swapped)
    assert found.verdict is verdict
    assert found.estimate.effect == pytest.approx(-judged(head, boots).estimate.effect)


def test_boot_of_another_session(tmp_path: Path) -> None:
    """It is refused by the session it names, and makes the session invalid where it names none."""
    folder, path = tmp_path / "1", tmp_path / "1" / "boots" / "001-B.json"
    shutil.copytree(SESSIONS / PACKED / "1", folder)
    shutil.copy(SESSIONS / UNITS / "1" / "boots" / path.name, path)
    with pytest.raises(SessionError, match="is of session 20261201T052837Z-bbde0523, not 20261130T232132Z"):
        finished_boots(folder)
    path.write_text(path.read_text(encoding="utf-8").replace("20261201T052837Z-bbde0523", ""), "utf-8")
    problems = session_problems(recorded(PACKED)[0], finished_boots(folder))
    assert "boot 1 is patched, not packed" in problems
    assert any("GPU differ" in problem for problem in problems)


def test_kernel_page() -> None:
    """docs/kernel.md prints the boots of its third session, and what they say."""
    head, boots = recorded(PACKED)
    cells = [f"{value:.2f} ms" for value in times(boots)]
    text, estimate = page("kernel.md"), judged(head, boots).estimate
    assert f"| 3rd, 1st, one | as it is | {' | '.join(cells[:4])} |" in text
    assert f"| 3rd, 2nd, the same | as it is | {' | '.join(cells[4:])} |" in text
    assert estimate.lower is not None
    assert estimate.upper is not None
    gain, lower, upper = (
        f"{math.expm1(one):.0%}" for one in (estimate.effect, estimate.lower, estimate.upper)
    )
    assert f"`improved` by {gain}, interval {lower} to {upper}, four pairs" in text


def test_throughput_page() -> None:
    """docs/throughput.md prints the boots of `token-units` against `patched`, and what they say."""
    head, boots = recorded(UNITS)
    of_arm = [times([boot for boot in boots if boot.letter == letter]) for letter in "AB"]
    units, patched = (", ".join(f"{value:.2f}" for value in values) for values in of_arm)
    spread = max(max(values) / min(values) - 1 for values in of_arm)
    text, estimate = page("throughput.md"), judged(head, boots).estimate
    assert estimate.lower is not None
    assert estimate.upper is not None
    assert estimate.detectable is not None
    assert (
        f"`token-units` {units} against `patched` {patched}: `inconclusive` at {percent(estimate.effect)}, "
        f"interval {percent(estimate.lower)} to {percent(estimate.upper)}."
    ) in text
    assert f"The boots of one arm differ by up to {spread:.0%} there" in text
    assert f"would have seen a loss of {-math.expm1(estimate.detectable):.0%} in four of five cases" in text


def test_captured_verdicts() -> None:
    """The 3D path is faster at every depth and costs no prefill; two blocks decide it."""
    head, boots = recorded(CAPTURED)
    by = judging(head)
    judges = by.judges(head.pairs)
    assert len(boots) == 2 * head.pairs
    assert session_problems(head, boots, by.deviation) == []
    found = {(one.metric, one.verdict) for one in judge_points(head, boots, judges)}
    assert found == {("isolated_step_ms", Verdict.IMPROVED), ("prefill_ms", Verdict.PASS)}
    assert render_texts(head, boots) == "texts: the same in all boots\n"
    assert enough(head, boots[:4], judges, by.deviation) is None
    assert enough(head, boots[:8], judges, by.deviation) == "every prompt is decided"
    whole, half = injections(head, boots, judges[0]), injections(head, boots[:8], judges[0])
    assert all(one.found for one in (*whole, *half))
    assert max(one.loss for one in half) > max(one.loss for one in whole) > INJECTED_LOSS


def interval(estimate: Estimate) -> str:
    """Effect and interval as a cell of a table."""
    assert estimate.lower is not None
    assert estimate.upper is not None
    return f"{percent(estimate.effect)} [{percent(estimate.lower)}, {percent(estimate.upper)}]"


def captured_row(head: SessionHead, boots: list[BootMeasure], judges: list[Judge], point: str) -> str:
    """A prompt's line in docs/throughput.md: times, what decided, what all boots say, and the prefill."""
    judge, session = judges[0], session_of(head, boots, point, judges[0].metric)
    assert isinstance(session, AbSession)
    of_arm = [
        [value for value, at in zip(session.values, session.order, strict=True) if at == arm] for arm in "AB"
    ]
    steps, prefill = (one.estimate for one in judge_points(head, boots, judges) if one.point == point)
    tail = look_tails(judge.design.sizes, ERROR)[-1]
    every = estimate_at(pair_ratios(session, judge.higher_is_better), judge.design, Noise(), tail, tail)
    times = [f"{min(values):.2f} to {max(values):.2f}" for values in of_arm]
    return f"| {' | '.join([point, *times, *map(interval, (steps, every, prefill))])} |"


def test_captured_page() -> None:
    """docs/throughput.md prints what the boots of the captured path say, prompt by prompt."""
    head, boots = recorded(CAPTURED)
    judges, text = judging(head).judges(head.pairs), page("throughput.md")
    for point in head.points:
        assert captured_row(head, boots, judges, point) in text
    shortest = [point for point in head.points if point.endswith("-24576")]
    in_3d = [boot for boot in boots if boot.letter == "B"]
    fast, slow = ranges(value for point in shortest for value in times(in_3d, point))
    assert f"at 24,576 tokens 3D took {fast} ms in some boots and {slow} in others" in text


def ranges(values: Iterable[float]) -> list[str]:
    """The two groups between which the values leave the widest gap."""
    found = sorted(values)
    _, cut = max((after - before, place) for place, (before, after) in enumerate(pairwise(found), 1))
    return [f"{group[0]:.1f} to {group[-1]:.1f}" for group in (found[:cut], found[cut:])]
