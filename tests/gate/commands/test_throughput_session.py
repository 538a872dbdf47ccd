"""The sessions behind the command: rules and key, two prompts that are confirmed, the other GPUs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from ci.commands import throughput_session
from ci.commands.throughput_rules import Judging
from ci.commands.throughput_session import Outcome, Throughput, measure_of
from ci.engine.abba import SessionOpenError
from ci.engine.profile import Point, Profile, load_profile
from ci.gate.ab import Design
from ci.lanes.gpu import GpuState, parse_state
from ci.results.aa import write_aa
from ci.results.throughput import BootMeasure, Number
from tests.gate.commands.played_machine import ARMS, PROFILE, Machine, aa_sessions, play
from tests.gate.gate.boots import boots, two_points


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine that plays."""
    return play(tmp_path, monkeypatch)


MEASURE = measure_of(PROFILE)
TWO = replace(MEASURE, points=[Point("prose", 400), Point("prose", 800)])
RULES = """\
[[rule]]
match = "throughput/verify-prose-400/isolated_step_ms"
kind = "ab"
direction = "lower-is-better"
margin = 0.02
pairs = 8
origin = "sample"

[[rule]]
match = "throughput/verify-prose-800/*"
kind = "ab"
direction = "lower-is-better"
margin = 0.005
pairs = 4
origin = "sample"
"""


def test_prompts_under_rules_of_their_own(machine: Machine) -> None:
    """None has a wider margin or fewer pairs than its own; a metric is judged at all prompts or at none."""
    path = Path("baselines/policy.toml")
    path.write_text(path.read_text().replace("[[rule]]", f"{RULES}\n[[rule]]", 1))  # the first that matches
    judging = Judging("verify", "rtx4090", TWO, {})
    (judge,) = judging.judges(judging.limit)
    assert (judge.metric, judge.design) == ("isolated_step_ms", Design(0.005, 8))


def sessions(profile: Profile, first: str = "a", second: str = "b", say: Any = print) -> Throughput:
    """Those of a profile and two arms of these series hashes; nothing has run."""
    built: Any = {
        name: SimpleNamespace(manifest=SimpleNamespace(series_hash=one, vllm="0.27.1"))
        for name, one in zip(ARMS, (first, second), strict=True)
    }
    return Throughput(profile, "rtx4090", built, Path("s"), in_process=True, say=say)


def test_key(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands for profile, model and series of both arms, in answers of the quality suite by itself."""
    served = replace(PROFILE, model=load_profile("rtx4090-steps").model)
    monkeypatch.setenv("FORKPROOF_DRAFTER", "/models/draft")
    keys = []
    for model in ("/models/a", "/models/b"):
        monkeypatch.setenv("FORKPROOF_MODEL", model)
        keys.append(sessions(served).head().key)
    keys.append(sessions(replace(served, env={"X": "1"})).head().key)
    keys += [sessions(served, *hashes).head().key for hashes in (("c", "b"), ("a", "c"), ("b", "a"))]
    assert len(set(keys)) == len(keys)
    assert sessions(served).head().key == keys[1]


def test_the_last_line_names_what_awaits_confirmation(machine: Machine) -> None:
    """Also behind another prompt that is open, of which the lane has no A/A session: it asks for more."""
    said: list[str] = []
    points = [Point("prose", 800), Point("prose", 400)]
    one = sessions(replace(PROFILE, measure=replace(MEASURE, points=points)), say=said.append)
    its = tuple(
        replace(each, points=tuple(replace(each.points[0], point=point.name) for point in points))
        for each in boots(2, 1.03)
    )
    assert one.conclude(Outcome(one.head(), its, "red is certain", None)) == 2
    assert "inconclusive - any-gpu-verify on rtx4090: red is certain; awaiting confirmation by" in said[-1]


def run_with(one: Throughput, its: list[BootMeasure], **how: Any) -> Outcome:
    """Run a session whose timed boots are these; nothing boots."""
    played: Any = one
    played.setup, played.warm_up = (lambda _folder: None), (lambda *_: (None, []))
    played.shown_boot = lambda _setup, head, place, _letter: replace(its[place], session=head.run)
    return one.run(**{"resume": False, **how})


def two_prompts(pairs: int, first: float, second: float) -> list[BootMeasure]:
    """Boots of both prompts of `TWO`."""
    names = [point.name for point in TWO.points]
    return [
        replace(
            one, points=tuple(replace(each, point=name) for each, name in zip(one.points, names, strict=True))
        )
        for one in two_points(boots(pairs, first, noise=0.0005), boots(pairs, second, noise=0.0005))
    ]


@pytest.fixture
def two(machine: Machine) -> Throughput:
    """The sessions of both prompts, on a lane with A/A sessions of both."""
    aa = [replace(one, case=f"verify-{point.name}") for point in TWO.points for one in aa_sessions()]
    write_aa(Path("baselines/rtx4090/aa.jsonl"), aa)
    return sessions(replace(PROFILE, measure=TWO))


def test_two_prompts_are_confirmed(two: Throughput, capsys: pytest.CaptureFixture[str]) -> None:
    """A prompt that passed before ends nothing by its red; the accused one is judged as a confirmation is."""
    red = "red is certain: isolated_step_ms of prose-400"
    assert run_with(two, two_prompts(2, 1.03, 1.0)).stopped == red
    its = two_prompts(8, 1.0051, 1.03)
    assert run_with(two, its, blocks=1).stopped is None
    with pytest.raises(SessionOpenError, match="has not ended"):
        run_with(two, its)
    outcome = run_with(two, its, resume=True)
    assert (len(outcome.boots), outcome.stopped) == (12, red)
    assert two.conclude(outcome) == 1
    assert "prose-400 isolated_step_ms: regressed" in capsys.readouterr().out


def test_an_unread_session_confirms_nothing(two: Throughput) -> None:
    """Run again, a fresh one takes its place, and still confirms the first."""
    red = two_prompts(2, 1.03, 1.03)
    unread = Number(None, "no first token")
    its = [
        replace(each, points=tuple(replace(point, isolated_step_ms=unread) for point in each.points))
        for each in red
    ]
    first = run_with(two, red)
    assert "cannot be judged" in (run_with(two, its).stopped or "")
    outcome = run_with(two, red)
    assert outcome.earlier == (first.head, first.boots)


@pytest.mark.parametrize(
    ("own", "others"), [("GPU-0", ["GPU-1", "GPU-2"]), ("GPU-1", ["GPU-0", "GPU-2"]), (None, [None, None])]
)
def test_other_gpus(monkeypatch: pytest.MonkeyPatch, own: str | None, others: list[str | None]) -> None:
    """All but the one in use, whichever of the host's it is; all but the first where none can be told."""

    def state(index: int | None = None) -> GpuState:
        name = own if index is None else f"GPU-{index}"
        return parse_state({"uuid": name} if own and name else {}, None, ())

    monkeypatch.setattr(throughput_session, "read_state", state)
    monkeypatch.setattr(throughput_session, "read_gpus", lambda: [None] * 3)
    assert [one.uuid for one in throughput_session.other_gpus()] == others
