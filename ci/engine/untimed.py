"""The boots of a throughput session that nobody times: what they prove, and what a session needs of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec.structs import replace

from ci.engine.abba import decoded
from ci.engine.census import LINE
from ci.engine.engines import Engine
from ci.engine.identity import UNPATCHED
from ci.engine.logtext import LogLine
from ci.engine.measure import soak
from ci.engine.profile import Measure, Profile
from ci.engine.server import Server
from ci.engine.timed_boot import Setup, Watched, boot_arm, boot_problems
from ci.results.files import write_atomic

CENSUS_FILE = "census.json"
OVERRIDE = "--num-gpu-blocks-override"

Blocks = Annotated[int, msgspec.Meta(ge=1)] | None
Pools = tuple[Blocks, Blocks]
"""Blocks of both arms' KV pools; None where /metrics did not say."""


class KeptPools(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the census boots of a session leave on disk."""

    blocks: Pools


def boots_before(folder: Path, measure: Measure) -> int:
    """How many boots `warm_up` will run: of both arms at first, then one where a soak is wanted.

    Raises:
        SessionError: as for `kept_pools`.
    """
    return 2 if kept_pools(folder / CENSUS_FILE) is None else int(measure.soak_s > 0)


def warm_up(setup: Setup) -> tuple[Profile, list[str]]:
    """Prove the path of each arm if this session has not yet done so, and leave the GPU warm.

    Returns:
        The profile of the timed boots, under which both arms have pools of one size, and what is wrong.

    Raises:
        GpuUnfitError: the machine is not quiet, or something was left on the GPU.
        SessionError: as for `kept_pools`.
    """
    path, soak_s = setup.folder / CENSUS_FILE, setup.measure.soak_s
    pools = kept_pools(path)
    if pools is not None:
        problems = soak_boot(setup, soak_s) if soak_s else []
        return with_equal_pools(setup.profile, pools), problems
    found: list[Blocks] = []
    for letter, soak_now in (("A", 0.0), ("B", soak_s)):
        seen = census_boot(setup, letter, soak_now)
        if seen.problems:
            return setup.profile, list(seen.problems)
        found.append(seen.blocks)
    pools = (found[0], found[1])
    write_atomic(path, msgspec.json.encode(KeptPools(pools)) + b"\n")
    return with_equal_pools(setup.profile, pools), []


def kept_pools(path: Path) -> Pools | None:
    """Blocks of both arms' pools, by the census boots of a session; None before there were any.

    Raises:
        SessionError: the file is damaged.
    """
    if not path.exists():
        return None
    return decoded(path, KeptPools, f"remove {path}: the census boots run again").blocks


@dataclass(frozen=True)
class CensusSeen:
    """What an untimed boot showed."""

    problems: tuple[str, ...]
    """What is wrong; empty if the path is proven."""
    blocks: int | None
    """Of its KV pool; None if /metrics did not say."""


def census_boot(setup: Setup, letter: str, soak_s: float) -> CensusSeen:
    """Boot the arm of a letter untimed with its instrument on, and prove which kernel serves a full draft."""
    arm = setup.arms["AB".index(letter)]
    watched = Watched()

    def watch(_server: Server, engine: Engine) -> None:
        engine.ask(engine.encode("The first flights of the program carried no crew. ") or [1], 32)
        if soak_s:
            soak(engine, soak_s)

    run, lines, _ = boot_arm(setup, arm, f"census-{letter}", watched, watch, None, debug=True)
    problems = [*boot_problems(setup, arm, run, watched, debug=True), *watched.problems]
    batch = setup.profile.model.depth + 1
    paths = paths_of(lines, batch)
    said = " and ".join(sorted(paths)) or "no dispatch line"
    setup.say(f"census of {arm.text}: {said} for batches of {batch} query tokens\n")
    expected = setup.measure.paths["AB".index(letter)] if setup.measure.paths else "any"
    if expected == "any":
        proven, wanted = bool(paths) or arm.arm == UNPATCHED, "2D or 3D"
    else:
        proven, wanted = paths == {expected}, expected
    if not proven:
        problems.append(f"census of {arm.text}: {batch} query tokens take {said}, expected {wanted}")
    return CensusSeen(tuple(problems), run.cache[0].num_gpu_blocks if run.cache else None)


def with_equal_pools(profile: Profile, blocks: Pools) -> Profile:
    """The profile under which both arms have the smaller of their pools.

    An arm that counts its scratch into the memory budget has a smaller pool: both are timed at one size.
    """
    first, second = blocks
    if first is None or second is None or first == second or OVERRIDE in profile.serve.flags:
        return profile
    serve = replace(profile.serve, flags=[*profile.serve.flags, OVERRIDE, str(min(first, second))])
    return replace(profile, serve=serve)


def soak_boot(setup: Setup, soak_s: float) -> list[str]:
    """Keep the GPU at work before a session goes on; returns what was wrong with the boot."""
    watched = Watched()

    def watch(_server: Server, engine: Engine) -> None:
        soak(engine, soak_s)

    run, _, _ = boot_arm(setup, setup.arms[0], "soak", watched, watch, None)
    return [*boot_problems(setup, setup.arms[0], run, watched), *watched.problems]


def paths_of(lines: Sequence[LogLine], tokens: int) -> set[str]:
    """The kernels that batches of one sequence with so many query tokens took, by the log."""
    found = (LINE.search(line.text) for line in lines)
    return {
        match["path"] for match in found if match and int(match["tokens"]) == int(match["longest"]) == tokens
    }
