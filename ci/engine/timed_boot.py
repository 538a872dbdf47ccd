"""One boot of a throughput session: on a quiet machine, proven to be its arm, timed, and written down."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from ci.engine.abba import LINEAGE, place_name
from ci.engine.boot import BootRun, ReadState, run_boot, serve_launch
from ci.engine.census import LINE
from ci.engine.circle import kept_circle
from ci.engine.compiled import compiled_code, lineage_problem, poison, require_clean
from ci.engine.engines import Engine, InProcessEngine, ServedEngine
from ci.engine.facts import LINEAGES, problem_of
from ci.engine.identity import (
    DEBUG,
    ArmUnderTest,
    arm_seen,
    environments,
    identity_problems,
    scratch_words,
)
from ci.engine.logtext import LogLine, read_log
from ci.engine.measure import measure_points
from ci.engine.patterns import Quantity
from ci.engine.profile import Measure, Profile
from ci.engine.server import Server
from ci.errors import GateError
from ci.lanes.gpu import GpuState, GpuUnfitError, Need, unfit_reasons
from ci.results.throughput import ArmSeen, BootMeasure, Number, PointMeasure

KEPT_ENVIRONMENT = {"SPT_NOENV": "1"}
"""A process that gives itself a title writes it over its environment otherwise, which is then not its own."""
PATIENCE_S = 300.0
POLL_S = 2.0
IDLE_BYTES = 1 << 30
"""Memory that a card may hold with nothing running on it."""


@dataclass(frozen=True)
class Machine:
    """How the machine is looked at; a test looks at another one."""

    read_state: ReadState
    others: Callable[[], Sequence[GpuState]]
    """The host's other GPUs."""
    load: Callable[[], float | None]
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class Setup:
    """What the boots of a session have in common."""

    profile: Profile
    measure: Measure
    arms: tuple[ArmUnderTest, ArmUnderTest]
    roots: Mapping[str, Path]
    """Folders of the arms, by name."""
    hashes: Mapping[str, str]
    """Series hashes of the arms, by name."""
    read_hash: Callable[[Path], str]
    """The series hash that the manifest in a folder says now."""
    folder: Path
    variables: Mapping[str, str]
    machine: Machine
    in_process: bool = False
    say: Callable[[str], None] = field(default=lambda _: None)


@dataclass
class Watched:
    """What was seen while a boot was up."""

    seen: ArmSeen | None = None
    points: list[PointMeasure] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    """Neighbours that were at work when the last request had ended."""
    load: float | None = None


def wait_quiet(setup: Setup) -> None:
    """Wait until the machine is fit for a timed boot; that it waits, and for what, is said once.

    Raises:
        GpuUnfitError: it has not become so; this says nothing about the arms.
    """
    machine, limits = setup.machine, setup.profile.limits
    need = Need(None, limits.load_average, limits.power_limit_w, tuple(limits.must_read))
    deadline = machine.clock() + PATIENCE_S
    waiting = False
    while reasons := [
        *unfit_reasons(machine.read_state(), need, machine.load()),
        *busy_others(machine.others()),
    ]:
        if machine.clock() >= deadline:
            raise GpuUnfitError(
                f"the machine did not become quiet in {PATIENCE_S:.0f} s: {'; '.join(reasons)}",
                cause="another user, or an earlier run",
                remedy="end what is yours, then go on with --resume",
            )
        if not waiting:
            setup.say(f"waiting, {PATIENCE_S:.0f} s at most, for a quiet machine: {'; '.join(reasons)}\n")
        waiting = True
        machine.sleep(POLL_S)


def busy_others(states: Sequence[GpuState]) -> list[str]:
    """Which of the host's other GPUs are at work, or may be."""
    return [
        f"GPU {state.uuid or number} of this host {words}"
        for number, state in enumerate(states, start=1)
        if (words := busy_words(state))
    ]


def busy_words(state: GpuState) -> str | None:
    """What keeps a GPU from being idle; None if nothing."""
    if state.pids or (state.used_bytes or 0) > IDLE_BYTES:
        return "is in use"
    if state.pids is None and state.used_bytes is None:
        return "cannot be read, so it may be in use"
    return None


def timed_boot(setup: Setup, place: int, letter: str) -> BootMeasure:
    """Boot the arm of a letter and time every prompt.

    Args:
        setup: the session's.
        place: in the order of boots.
        letter: A or B.

    Raises:
        GpuUnfitError: the machine was not quiet before, or no longer behind the last prompt, or something was
            left on the GPU; the boot is not recorded, for this says nothing about the arms.
    """
    arm = setup.arms["AB".index(letter)]
    watched = Watched()

    def watch(server: Server, engine: Engine) -> None:
        cached = setup.profile.serve.prefix_cache is not False
        measure, depth = setup.measure, setup.profile.model.depth
        tail = kept_circle(setup.folder, engine, measure.seed + 2) if measure.circle else engine.tail()
        points, problems = measure_points(engine, measure, cached=cached, depth=depth, tail=tail)
        endless = [point.point for point in points if not_finite(point)]
        # JSON has no such numbers: they would be read as none at all.
        watched.points += [point for point in points if point.point not in endless]
        watched.problems += problems
        watched.problems += [f"{name}: the engine's times are no finite numbers" for name in endless]

    started = datetime.now(UTC).isoformat(timespec="seconds")
    shared = shared_caches(setup)
    run, lines, seconds = boot_arm(setup, arm, place_name(place), watched, watch, shared)
    code = compiled_code(lines)
    lineage = LINEAGES[run.report.lineage]
    problems = [*boot_problems(setup, arm, run, watched), *watched.problems]
    problem = lineage_problem(setup.profile.lineage, code, lineage)
    problems += [problem] if problem else []
    if any(LINE.search(line.text) for line in lines):
        problems.append("its instrument was on: the log holds dispatch lines")
    if code.mixed and shared is not None:
        poison(shared, f"boot {place_name(place)} {problem}")
    if watched.busy:
        raise GpuUnfitError(
            f"boot {place_name(place)} was timed beside others: {'; '.join(watched.busy)}",
            cause="another user, whose work began during the boot",
            remedy="end what is yours, then go on with --resume",
        )
    return BootMeasure(
        arm=arm.text,
        letter="A" if letter == "A" else "B",
        place=place,
        started=started,
        seconds=seconds,
        problems=tuple(problems),
        seen=replace(watched.seen, scratch=scratch_words(run.report)) if watched.seen else None,
        pool_tokens=pool_tokens(run),
        lineage=lineage,
        modules_loaded=code.loaded,
        modules_compiled=code.compiled,
        machine={**(run.up.recorded() if run.up else {}), "load_average": watched.load},
        points=tuple(watched.points),
    )


def boot_arm(
    setup: Setup,
    arm: ArmUnderTest,
    name: str,
    watched: Watched,
    watch: Callable[[Server, Engine], None],
    caches: Path | None,
    debug: bool = False,
) -> tuple[BootRun, list[LogLine], float]:
    """One boot of an arm under its flags; what happens while it is up is left in `watched`.

    Raises:
        GpuUnfitError: the machine is not quiet, or something was left on the GPU.
    """
    wait_quiet(setup)
    setup.say(f"booting {name}: {arm.text}\n")
    folder = setup.folder / "engine" / name
    flags = arm_flags(setup, arm, debug)
    unset = other_flags(setup, arm)
    variables = {name: value for name, value in setup.variables.items() if name not in unset}
    profile = replace(setup.profile, env={**flags, **KEPT_ENVIRONMENT})
    if caches is not None:
        require_clean(caches)
    launch = serve_launch(
        profile,
        profile.serve.max_num_seqs[0],
        setup.roots[arm.arm],
        folder,
        variables,
        caches=caches,
        in_process=setup.in_process,
        descriptions=setup.folder / "descriptions" / arm.arm,
        bytecode=setup.folder / "bytecode",
    )

    def while_up(server: Server) -> None:
        root = setup.roots[arm.arm]
        watched.load = setup.machine.load()
        watched.seen = arm_seen(environments(server.mark), root, setup.read_hash(root), [*flags, *unset])
        engine: Engine = InProcessEngine(server)
        if not setup.in_process:
            engine = ServedEngine(server, setup.measure.chat)
        try:
            watch(server, engine)
        except GateError as error:
            watched.problems.append(f"a request failed: {error.in_one_line}")
        watched.busy += busy_others(setup.machine.others())

    begun = setup.machine.clock()
    run = run_boot(launch, setup.machine.read_state, while_up)
    if run.left:
        raise GpuUnfitError(f"boot {name} left {run.left} on the GPU", remedy="look at nvidia-smi")
    # A session has many boots, and an empty cache fills with gigabytes in each.
    shutil.rmtree(folder / "caches", ignore_errors=True)
    log = folder / "boot.log"
    lines = read_log(log.read_bytes()) if log.exists() else []
    return run, lines, setup.machine.clock() - begun


def arm_flags(setup: Setup, arm: ArmUnderTest, debug: bool) -> dict[str, str]:
    """Variables that all processes of an arm's boot must have: the profile's, over them the arm's own."""
    return {**setup.profile.env, **arm.flags, DEBUG: "1" if debug else "0"}


def other_flags(setup: Setup, arm: ArmUnderTest) -> list[str]:
    """Variables that only the other arm names: a boot that inherited one would be no reference."""
    named = {**setup.profile.env, **arm.flags}
    return [name for one in setup.arms for name in one.flags if name not in named]


def boot_problems(
    setup: Setup, arm: ArmUnderTest, run: BootRun, watched: Watched, debug: bool = False
) -> list[str]:
    """What makes a boot no boot of its arm."""
    problem = problem_of(run.report)
    problems = [problem] if problem else []
    if watched.seen is not None:
        wanted = ArmUnderTest(arm.text, arm.arm, arm_flags(setup, arm, debug))
        hashed = setup.hashes[arm.arm]
        problems += identity_problems(watched.seen, wanted, hashed, other_flags(setup, arm))
    elif not problems:
        problems.append("it was never looked at while it was up")
    return problems


def not_finite(point: PointMeasure) -> bool:
    """Whether a time or a count of a prompt is infinite or not a number."""
    fields = [getattr(point, name) for name in point.__struct_fields__]
    numbers = [*point.round_ms, *(field.value for field in fields if isinstance(field, Number))]
    return not all(math.isfinite(number) for number in numbers if number is not None)


def pool_tokens(run: BootRun) -> Number:
    """Tokens of the KV pool: exactly from /metrics, else as the log prints them."""
    exact = run.cache[0].kv_tokens if run.cache else None
    if exact is not None:
        return Number(float(exact))
    figure = run.report.figure(Quantity.KV_TOKENS)
    return Number(figure.smallest.value) if figure.smallest else Number(None, figure.reason)


def shared_caches(setup: Setup) -> Path | None:
    """The compile cache of a shared lineage; None where every boot has an empty one."""
    kind, _, name = setup.profile.lineage.partition(":")
    return setup.folder / LINEAGE / name if kind == "shared" else None
