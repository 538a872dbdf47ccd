"""Timed boots of a server that plays recorded timings: what comes out, and what makes one invalid."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ci.engine import timed_boot
from ci.engine.abba import encoded
from ci.engine.circle import CIRCLE_FILE
from ci.engine.compiled import MARK, PoisonedLineageError
from ci.engine.identity import parse_arm
from ci.engine.measure import measure_points
from ci.engine.timed_boot import Machine, busy_others, wait_quiet
from ci.errors import GateError
from ci.lanes.gpu import GpuUnfitError, parse_state
from ci.results.throughput import BootMeasure, Number, PointMeasure
from tests.gate.engine.played import COMPILES, FLAG, LOADS, LOG, QUIET, Bench, dispatch, profile


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A session of played boots."""
    return Bench(tmp_path, monkeypatch)


def test_a_boot_in_one_process(bench: Bench) -> None:
    """31 tokens in ten steps of 4 ms on a cached prompt; arm, pool and lineage are on record."""
    said: list[str] = []
    boot = bench.boot(1, say=said.append)
    assert said == [f"booting 001-B: patched+{FLAG}=1\n"]
    assert boot.problems == ()
    (point,) = boot.points
    assert (boot.letter, boot.place, boot.arm) == ("B", 1, f"patched+{FLAG}=1")
    assert (point.prompt_tokens, point.completion_tokens, point.steps.value) == (400, 31, 10.0)
    assert point.isolated_step_ms.value == pytest.approx(4.0)
    assert point.tokens_per_step.value == pytest.approx(3.0)
    assert point.cached_tokens.value == 384.0
    assert point.prefill_ms.value == pytest.approx(20.0)
    assert boot.pool_tokens == Number(16.0 * 10812)
    assert boot.seen is not None
    assert boot.seen.flags == {FLAG: "1", timed_boot.DEBUG: "0", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    assert boot.seen.root_first
    assert boot.seen.scratch == "2 loaded, 8 adopted, 0 late"
    assert boot.machine["load_average"] == 0.3
    assert boot.machine["gpu_uuid"] == "GPU-1"
    assert boot.lineage == "cold"


def test_caches_are_removed(bench: Bench) -> None:
    """What an engine leaves in an empty cache is gigabytes in each boot."""
    caches = bench.folder / "session" / "engine" / "000-A" / "caches"

    def compiling(_root: Path) -> str:
        caches.mkdir()
        return "abc"

    assert bench.boot(read_hash=compiling).problems == ()
    assert not caches.exists()


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("field", ["round_ms", "isolated_step_ms"])
def test_times_that_are_no_numbers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, field: str, number: float
) -> None:
    """JSON has none of them: the boot is written with its problem, and can be read again."""

    def measured(*given: Any, **more: Any) -> tuple[list[PointMeasure], list[str]]:
        (point,), problems = measure_points(*given, **more)
        value = Number(number) if field == "isolated_step_ms" else (number,)
        return [replace(point, **{field: value})], problems

    monkeypatch.setattr(timed_boot, "measure_points", measured)
    boot = bench.boot()
    assert boot.problems == ("prose-400: the engine's times are no finite numbers",)
    assert msgspec.json.decode(encoded(boot), type=BootMeasure) == boot


def test_a_failure_is_told_whole(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its cause and its remedy."""

    def failing(*_given: Any, **_more: Any) -> None:
        raise GateError("it broke", cause="old age", remedy="a new one")

    monkeypatch.setattr(timed_boot, "measure_points", failing)
    assert bench.boot().problems == ("a request failed: it broke; cause:  old age; remedy: a new one",)


def test_a_served_boot(bench: Bench) -> None:
    """Streamed, the same: steps from the scheduler, hits from the counter, times from the stream."""
    boot = bench.boot(in_process=False)
    assert boot.problems == ()
    (point,) = boot.points
    assert (point.steps.value, point.drafts.value, point.chunks) == (10.0, 10.0, 11)
    assert point.cached_tokens.value == 384.0
    assert point.step_ms.value == pytest.approx(4.0, rel=0.5)
    assert point.decode_tok_s.value == pytest.approx(31 / 0.040, rel=0.5)


def test_tokens_after_the_end_of_the_answer(bench: Bench) -> None:
    """Special tokens, which a server sends without text by default, are timed like all others."""
    bench.plan["special_from"] = 4
    boot = bench.boot(in_process=False)
    assert boot.problems == ()
    assert boot.points[0].chunks == 11


def test_a_boot_says_when_it_began(bench: Bench) -> None:
    """Not when it was done: the seconds that it took are counted from there."""
    bench.plan["boot_s"] = 2.0
    boot = bench.boot()
    assert datetime.fromisoformat(boot.started) <= datetime.now(UTC) - timedelta(seconds=2)
    assert boot.seconds > 2.0


def test_any_cut_of_the_stream(bench: Bench) -> None:
    """In HTTP chunks of nine bytes, the same counts and the same text."""
    whole = bench.boot(in_process=False).points[0]
    bench.plan["cut_bytes"] = 9
    cut = bench.boot(in_process=False).points[0]
    assert (cut.chunks, cut.steps, cut.text_sha256) == (whole.chunks, whole.steps, whole.text_sha256)
    assert cut.completion_tokens == whole.completion_tokens


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no-done", "a request failed (no_done)"),
        ("error", "a request failed (error)"),
        ("no-usage", "a request failed (no_usage)"),
        ("cut", "a request failed (cut)"),
        ("no-cache", "unequal hits of the prefix cache: 0 and 0"),
        ("no-metrics", "hits could not be read: /metrics"),
        ("short", "30 tokens were generated, not 31"),
    ],
)
def test_failed_requests(bench: Bench, fault: str, words: str) -> None:
    """Every failure of a request makes the boot one that is not compared."""
    bench.plan["fault"] = fault
    boot = bench.boot(in_process=False)
    assert words in boot.problems[0]
    assert boot.points == ()


def test_another_arm(bench: Bench) -> None:
    """Another flag in the processes, another folder first, or another series: not the arm it is taken for."""
    bench.env = {FLAG: "1"}
    assert any(f"{FLAG} is '1'" in one for one in bench.boot(0).problems)
    bench.env = {"VLLM_USE_FLASHINFER_SAMPLER": "1"}  # not a flag of the arm: the profile's
    words = "VLLM_USE_FLASHINFER_SAMPLER is '1' in the engine's processes, not '0'"
    assert bench.boot(0).problems == (words,)
    bench.env = {"PYTHONPATH": "/elsewhere"}
    assert any("does not import vLLM from the arm" in one for one in bench.boot(0).problems)
    bench.env, bench.hash = {}, "other"
    assert any("holds series other, not abc" in one for one in bench.boot(0).problems)


def test_instrument_left_on(bench: Bench) -> None:
    """Dispatch lines in the log of a timed boot show an instrument that is part of the measurement."""
    bench.log = LOG + dispatch(8, "3D")
    assert "its instrument was on: the log holds dispatch lines" in bench.boot().problems


def test_mixed_boot(bench: Bench) -> None:
    """A boot that loads and recompiles is flagged; in a shared lineage its cache is never used again."""
    bench.log = LOG + LOADS + COMPILES
    shared = profile(lineage="shared:reference")
    assert "recompiled" in bench.boot(one=shared).problems[0]
    mark = bench.folder / "session" / "lineage" / "reference" / MARK
    assert "boot 000-A it loaded" in mark.read_text()
    with pytest.raises(PoisonedLineageError):
        bench.boot(1, one=shared)
    bench.log = LOG
    assert bench.boot(1).problems == ()


def test_quiet(bench: Bench) -> None:
    """A boot waits until load has gone down and other GPUs are idle, and gives up in the end."""
    loads = iter([2.0, 1.4, 0.9])
    slept: list[float] = []
    limited = profile(limits=replace(profile().limits, load_average=1.3))
    machine = Machine(lambda: QUIET, list, lambda: next(loads), slept.append, clock=lambda: 0.0)
    said: list[str] = []
    wait_quiet(bench.setup(limited, machine=machine, say=said.append))
    assert len(slept) == 2
    (line,) = said
    assert line.startswith("waiting, 300 s at most, for a quiet machine: ")
    assert "load average is 2.0" in line
    ticks = iter(range(0, 10_000, 100))
    other = parse_state({"memory.used": "9000"}, None, ())
    busy = Machine(
        lambda: QUIET, lambda: [other], lambda: 0.0, slept.append, clock=lambda: float(next(ticks))
    )
    with pytest.raises(GpuUnfitError, match="GPU 1 of this host is in use"):
        wait_quiet(bench.setup(limited, machine=busy))


def test_a_neighbour_that_begins_during_a_boot(bench: Bench) -> None:
    """Quiet before and busy behind the last prompt: the boot is not recorded, and the session can go on."""
    looks = iter([[], [parse_state({"memory.used": "9000"}, None, ())]])
    machine = Machine(lambda: QUIET, lambda: next(looks), lambda: 0.3)
    with pytest.raises(
        GpuUnfitError, match="boot 000-A was timed beside others: GPU 1 of this host is in use"
    ):
        bench.boot(machine=machine)


@pytest.mark.parametrize("log", [LOG, LOG + LOADS + COMPILES])
@pytest.mark.parametrize("fails", [False, True])
def test_whatever_else_was_wrong_beside_a_neighbour(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, log: str, fails: bool
) -> None:
    """Failed requests are no finding about the arm then; a poisoned cache is marked all the same."""

    def failing(*_given: Any, **_more: Any) -> None:
        raise GateError("it broke")

    bench.log = log
    if fails:
        monkeypatch.setattr(timed_boot, "measure_points", failing)
    looks = iter([[], [parse_state({"memory.used": "9000"}, None, ())]])
    machine = Machine(lambda: QUIET, lambda: next(looks), lambda: 0.3)
    with pytest.raises(GpuUnfitError, match="was timed beside others"):
        bench.boot(one=profile(lineage="shared:one"), machine=machine)
    assert bool(list((bench.folder / "session").rglob(MARK))) == (log != LOG)


def test_the_reference_inherits_no_flag_of_the_subject(bench: Bench) -> None:
    """What only the other arm names is taken out of the caller's environment; what is there is told."""
    arms = (parse_arm("patched"), parse_arm("patched+SLOW=1"))
    boot = bench.boot(arms=arms, variables={"SLOW": "1"})
    assert boot.seen is not None
    assert (boot.problems, boot.seen.flags["SLOW"]) == ((), None)
    bench.env["SLOW"] = "1"
    assert bench.boot(arms=arms).problems == ("SLOW is '1' in the engine's processes; it is the other arm's",)


@pytest.mark.parametrize(
    ("memory", "pids", "words"),
    [
        (None, (5,), ["GPU 1 of this host is in use"]),
        ("9000", None, ["GPU 1 of this host is in use"]),
        (None, None, ["GPU 1 of this host cannot be read, so it may be in use"]),
        ("1025", None, ["GPU 1 of this host is in use"]),
        ("1024", None, []),
        (None, (), []),
    ],
)
def test_busy_others(memory: str | None, pids: tuple[int, ...] | None, words: list[str]) -> None:
    """At work, idle by one reading at least, or not known to be idle; a host without others has none."""
    assert busy_others([parse_state({"memory.used": memory} if memory else {}, None, pids)]) == words
    assert busy_others([]) == []


@pytest.mark.parametrize(("tokens_per_step", "found"), [(8, 0), (3, 1)])
def test_drafts_have_to_be_full_behind_a_circle(bench: Bench, tokens_per_step: int, found: int) -> None:
    """A full step has the drafts of the profile's depth and one token more; the session keeps its circle."""
    bench.plan["tokens_per_step"] = tokens_per_step
    boot = bench.boot(one=profile(measure={"circle": True}))
    assert ["no circle was met" in problem for problem in boot.problems] == [True] * found
    assert (bench.folder / "session" / CIRCLE_FILE).exists()
