"""Time of one attention call, against the time of its bytes alone and against other arms in the same run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from armlib.bounds import bound_of, margin_of
from armlib.children import Child
from armlib.production import in_arm, owner_of
from bench import Bench, Stopwatch, once
from cases import CASES, COMPARED_TWICE, CONTROLS, DONE_TWICE, Doubled, Kind
from comparison import Leg, Timed, figures, mirrored, opponents, ratio_seen, time_seen
from timing import copy_bytes_per_s

SUITE = "kernelbench"
OWN = "under test"
"""The arm's own passes; a reference may be the same arm in another process."""
SCRIPT = Path(__file__).with_name("bench.py")


@dataclass(frozen=True)
class Session:
    """All that one session timed."""

    paths: Mapping[str, Mapping[str, str]]
    """Arm -> case -> 3D or 2D."""
    passes: Mapping[str, list[Mapping[str, float]]]
    """Arm -> its two passes: graph -> microseconds."""
    copy: float
    """Bytes per second."""

    def timed(self, arm: str, graph: str) -> Timed:
        """Both times of one graph."""
        return Timed(*(one[graph] for one in self.passes[arm]))

    def leg(self, arm: str, case: str) -> Leg:
        """What an arm did with a case."""
        return Leg(self.timed(arm, case), self.paths[arm][case])

    def doubled(self, control: Doubled) -> tuple[Timed, Timed]:
        """The arm's own call of a control's case, done once and done twice."""
        return self.timed(OWN, control.case), self.timed(OWN, control.name)


def flag_off(case: str) -> str:
    """The graph of a case with the multi-query flag off."""
    return f"{case} flag 0"


def own_stopwatch(bench: Bench) -> Stopwatch:
    """The arm's graphs: every case, some of them with the flag off too, and the controls."""
    calls = once(bench)
    for case in bench.cases:
        if case.kind is Kind.CALL:
            calls[flag_off(case.name)] = (bench.call(case, flag=0), 1, case.repeats)
    for control in CONTROLS:
        call, _, repeats = calls[control.case]
        calls[control.name] = (call, 2, repeats)
    return Stopwatch(calls)


def run_session(names: tuple[str, ...]) -> Session:
    """Prepare every arm at once, then time one after the other, there and back.

    Args:
        names: the arms beside the one under test.
    """
    with ExitStack() as children:
        others = {name: children.enter_context(Child([str(SCRIPT)], in_arm(name))) for name in names}
        bench = Bench(CASES)
        stopwatch = own_stopwatch(bench)
        paths = {OWN: bench.paths(), **{name: child.answer() for name, child in others.items()}}
        clocks: dict[str, Callable[[], Mapping[str, float]]] = {OWN: stopwatch.time}
        clocks |= {name: lambda child=child: child.ask("time") for name, child in others.items()}
        copy = copy_bytes_per_s()
        passes: dict[str, list[Mapping[str, float]]] = {name: [] for name in clocks}
        for name in mirrored(tuple(clocks)):
            passes[name].append(clocks[name]())
    return Session(paths, passes, copy)


def test_calls(measure: Any, reached: Any) -> None:
    """Every case in this arm and in those beside it; and a call done twice is noticed by both comparisons."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    assert torch.cuda.is_available(), "kernelbench needs a CUDA GPU; on the CPU lane it is not planned"
    beside = opponents(list(json.loads(os.environ["FORKPROOF_ARM_ROOTS"])))
    session = run_session(beside.names)
    measure("copy", "bytes_per_s", session.copy, unit="bytes/s")
    measure("passes", "order", " ".join(mirrored((OWN.replace(" ", "-"), *beside.names))), unit="name")
    for case in CASES:
        others = {name: session.leg(name, case.name) for name in beside.names}
        off = session.timed(OWN, flag_off(case.name)) if case.kind is Kind.CALL else None
        own = session.leg(OWN, case.name)
        for one in figures(case, own, off, others, beside.before, session.copy):
            measure(case.name, one.metric, one.value, unit=one.unit, reason=one.reason)

    seen = {
        DONE_TWICE: time_seen(*session.doubled(DONE_TWICE), margin_of(SUITE, DONE_TWICE.case, "us_3d")),
        COMPARED_TWICE: ratio_seen(
            *session.doubled(COMPARED_TWICE), bound_of(SUITE, COMPARED_TWICE.case, "ratio_to_before")
        ),
    }
    for control, one in seen.items():
        measure.control(control.name, red=one.red, metric=control.metric, value=one.value, unit=control.unit)
    assert all(one.red for one in seen.values())
