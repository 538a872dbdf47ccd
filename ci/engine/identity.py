"""Which arm a boot really is: by what its engine processes were started with, its log and its folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ci.engine import orphans
from ci.engine.bootlog import BootReport
from ci.engine.scratchlines import ScratchEvent
from ci.errors import UsageError
from ci.results.throughput import ArmSeen

FLAG_MARK = "+"
"""Between an arm and each flag under which it runs."""
GATE_SETS = (
    "PYTHON",
    "VLLM_CACHE_ROOT",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "VLLM_DISABLE_COMPILE_CACHE",
    "VLLM_ENABLE_V1_MULTIPROCESSING",
    "VLLM_NO_USAGE_STATS",
    "VLLM_DO_NOT_TRACK",
)
"""How the names of variables begin that every boot gets from the gate: its imports and caches are these."""
DEBUG = "VLLM_INT4_MQ_3D_DEBUG"
"""The arm's instrument. It runs during a measurement, so it is off in every boot that is timed."""
TIMED_SETS = (*GATE_SETS, DEBUG)
"""The same of a boot that is timed."""
UNPATCHED = "stock"
"""The arm without a patch, which has no instrument."""
SUBJECT, PREVIOUS = "@subject", "@previous"
"""In a profile: the arm that a run is about, and the one with one patch less."""


@dataclass(frozen=True)
class ArmUnderTest:
    """An arm and its flags, such as `packed+VLLM_INT4_MQ_3D=0`."""

    text: str
    arm: str
    flags: Mapping[str, str]


def parse_arm(text: str) -> ArmUnderTest:
    """The arm that a session's word names.

    Raises:
        UsageError: a flag is not NAME=VALUE, stands twice, or is the gate's to set.
    """
    arm, *words = text.split(FLAG_MARK)
    flags: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier() or name in flags:
            raise UsageError(
                f"{text!r}: {word!r} is not a flag NAME=VALUE", remedy="packed+VLLM_INT4_MQ_3D=0"
            )
        if name.startswith(TIMED_SETS):
            raise UsageError(f"{text!r}: {name} is set by the gate itself", remedy="leave it out")
        flags[name] = value
    if not arm:
        raise UsageError(f"{text!r} names no arm", remedy="packed+VLLM_INT4_MQ_3D=0")
    return ArmUnderTest(text, arm, flags)


def resolve_arm(text: str, names: Sequence[str]) -> ArmUnderTest:
    """The arm of a profile's word, where `@subject` and `@previous` stand for arms of the series.

    Args:
        text: of the profile.
        names: the arms of the series up to the subject, in their order.

    Raises:
        UsageError: the subject has no arm before it, or no arm is named so.
    """
    if PREVIOUS in text:
        if len(names) < 2:
            raise UsageError(
                f"{text}: no arm comes before {names[-1]!r}",
                remedy="choose a later arm, or name both: --arms A B",
            )
        text = text.replace(PREVIOUS, names[-2])
    arm = parse_arm(text.replace(SUBJECT, names[-1]))
    if arm.arm not in names:
        raise UsageError(f"the series has no arm {arm.arm!r}", remedy=f"one of: {', '.join(names)}")
    return arm


def environments(mark: str) -> list[dict[str, str]]:
    """The environment that each living process of a boot was started with."""
    found = []
    for pid, _ in orphans.marked(mark):
        with suppress(OSError):
            environment = parse_environ(orphans.environment_of(pid))
            # Read once more, it may be gone or another process.
            if environment.get(orphans.MARK) == mark:
                found.append(environment)
    return found


def parse_environ(data: bytes) -> dict[str, str]:
    """Variables of /proc/PID/environ."""
    pairs = (entry.partition(b"=") for entry in data.split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def arm_seen(
    processes: Sequence[Mapping[str, str]], root: Path, series_hash: str, flags: Iterable[str]
) -> ArmSeen:
    """What the processes of a boot show; its plan lines come later, from its log.

    Args:
        processes: their environments.
        root: the arm's folder.
        series_hash: of the manifest that lies in it.
        flags: the names to look for.
    """
    values = {name: {one.get(name) for one in processes} or {None} for name in flags}
    return ArmSeen(
        series_hash=series_hash,
        root_first=bool(processes) and all(vllm_of(one) == root for one in processes),
        flags={
            name: found.pop() if len(found) == 1 else " and ".join(sorted(map(repr, found)))
            for name, found in values.items()
        },
        processes=len(processes),
        scratch="",
    )


def vllm_of(environment: Mapping[str, str]) -> Path | None:
    """The folder from which a process imports vLLM: the first on its path that has it; None if none does.

    Compile workers get a path of their own, with other folders before the arm.
    """
    folders = (Path(entry) for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry)
    return next((folder for folder in folders if (folder / "vllm").is_dir()), None)


def identity_problems(
    seen: ArmSeen, wanted: ArmUnderTest, series_hash: str, unset: Iterable[str] = ()
) -> list[str]:
    """What shows that a boot is not the arm that it is taken for.

    Args:
        seen: of the boot.
        wanted: the arm, with all flags that it must have.
        series_hash: of the arm's folder.
        unset: flags of the other arm, which this one must not have.
    """
    problems = []
    if not seen.processes:
        problems.append("no process of the engine could be looked at")
    elif not seen.root_first:
        problems.append(f"an engine process does not import vLLM from the arm {wanted.arm}")
    if seen.series_hash != series_hash:
        problems.append(f"the arm's folder holds series {seen.series_hash[:12]}, not {series_hash[:12]}")
    for name, value in wanted.flags.items():
        if seen.flags.get(name) != value:
            problems.append(f"{name} is {seen.flags.get(name)!r} in the engine's processes, not {value!r}")
    for name in unset:
        if seen.flags.get(name) is not None:
            problems.append(
                f"{name} is {seen.flags[name]!r} in the engine's processes; it is the other arm's"
            )
    return problems


def scratch_words(report: BootReport) -> str:
    """The plan lines of a boot, counted."""
    counts = {
        "loaded": ScratchEvent.LOADED,
        "adopted": ScratchEvent.ADOPTED,
        "late": ScratchEvent.LATE,
    }
    return ", ".join(f"{len(report.scratch_of(event))} {word}" for word, event in counts.items())
