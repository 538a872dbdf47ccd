"""``python -m ci throughput``: two arms, or one under two flag values, boot by boot in the order A B B A."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from ci.commands.run import arms_by_name
from ci.commands.throughput_session import Throughput, checked_pairs, measure_of
from ci.engine.identity import parse_arm, resolve_arm
from ci.engine.inprocess import READS
from ci.engine.profile import Profile, load_profile, timed_names
from ci.errors import ExitCode, UsageError
from ci.lanes.conditions import detect_lane
from ci.lanes.gpu import GpuUnfitError, lease, read_state
from ci.stack.arms import Arm, names_up_to
from ci.stack.cache import cache_root
from ci.stack.record import Flavour

EPILOG = """\
examples:
  python -m ci throughput rtx4090-steps                        a whole session, until it is decided
  python -m ci throughput rtx4090-steps --resume               go on with the next whole block
  python -m ci throughput any-gpu-captured --in-process --blocks 1
  python -m ci throughput any-gpu-verify-slowed --in-process   an arm made 3% slower, which must be found

Boots are kept in out/throughput/LANE/PROFILE/ARMS. A session that came out slower is held: run the command
again for the fresh session that confirms it or not.
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "throughput",
        help="compare the speed of two arms on this GPU, boot by boot",
        description="Boot two arms in turn and time a decode step of each, until the difference is decided.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "profile", help="a launch profile with a [measure] table: ci/engine/profiles/NAME.toml"
    )
    parser.add_argument("--arm", help="the arm it is about (default: the whole series)")
    parser.add_argument("--arms", nargs=2, metavar=("A", "B"), help="reference and subject, with flags")
    parser.add_argument("--point", action="append", help="only this prompt, such as prose-6747")
    parser.add_argument("--pairs", type=int, help="the most pairs of boots (default: the policy's)")
    parser.add_argument("--blocks", type=int, help="run at most so many blocks of four boots now")
    parser.add_argument("--resume", action="store_true", help="go on with the session that is there")
    parser.add_argument("--fresh", action="store_true", help="put the session that is there aside")
    parser.add_argument("--in-process", action="store_true", help="without vLLM's server")
    parser.add_argument("--session", type=Path, help="folder of the sessions")
    parser.add_argument("--series", type=Path, metavar="DIR", help="a series other than patches/")
    parser.add_argument("--flavour", type=Flavour, choices=list(Flavour), help=argparse.SUPPRESS)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Hold the GPU, run what is left of the session, and judge it."""
    if args.resume and args.fresh:
        raise UsageError("--resume goes on and --fresh begins anew", remedy="leave one of them out")
    if args.blocks is not None and args.blocks < 1:
        raise UsageError(f"--blocks {args.blocks}: at least 1")
    pairs = None if args.pairs is None else checked_pairs(args.pairs)
    check_timed(args.profile)
    profile = chosen(load_profile(args.profile), args.arms, args.point)
    if not args.in_process:
        check_served(profile)
    lane = machine_lane(profile)
    built = built_arms(profile, args, lane)
    one = Throughput(profile, lane, built, args.session, args.in_process, pairs)
    with lease(read_state().uuid or "unnamed", cache_root() / "leases", f"throughput {profile.name}"):
        outcome = one.run(resume=args.resume, fresh=args.fresh, blocks=args.blocks)
    return one.conclude(outcome)


def chosen(profile: Profile, arms: Sequence[str] | None, points: Sequence[str] | None) -> Profile:
    """The profile with other arms, or with a part of its prompts.

    Raises:
        UsageError: a prompt that the profile does not have.
    """
    measure = measure_of(profile)
    names = {point.name: point for point in measure.points}
    unknown = [name for name in points or () if name not in names]
    if unknown:
        raise UsageError(f"{profile.name} has no prompt {unknown[0]}", remedy=f"one of: {', '.join(names)}")
    if points:
        measure = replace(measure, points=[names[name] for name in dict.fromkeys(points)])
    if arms and tuple(arms) != measure.arms:
        # What kernel other arms take is not the profile's to say.
        measure = replace(measure, arms=(arms[0], arms[1]), paths=None)
    return replace(profile, measure=measure)


def check_timed(name: str, *, served: bool = False) -> None:
    """Refuse a word that is no profile with something to time.

    Args:
        name: the word.
        served: of those with something to time, name only what vLLM's server can run.

    Raises:
        UsageError: it is none; those that are one are named.
    """
    names = timed_names()
    if name in names:
        return
    if served:
        names = [one for one in names if not unread(load_profile(one))]
    raise UsageError(f"{name!r} is no profile with a [measure] table", remedy=f"one of: {', '.join(names)}")


def check_served(profile: Profile, remedy: str = "--in-process") -> None:
    """Refuse arms or settings that say something which vLLM's server would not read.

    Raises:
        UsageError: the first of them, by name.
    """
    if names := unread(profile):
        raise UsageError(
            f"{profile.name}: {names[0]} is read by the engine in one process only",
            cause="behind vLLM's server the arm would run as if it were not set",
            remedy=remedy,
        )


def unread(profile: Profile) -> list[str]:
    """What the profile or its arms set and vLLM's server would not read."""
    flags = (name for text in measure_of(profile).arms for name in parse_arm(text).flags)
    return sorted(READS & {*profile.env, *flags})


def built_arms(profile: Profile, args: argparse.Namespace, lane: str) -> dict[str, Arm]:
    """The arms of the series up to the one under test, built.

    Raises:
        UsageError: the profile's arms are not among them, told before a wheel is fetched.
    """
    names = names_up_to(args.arm, args.series)
    for text in measure_of(profile).arms:
        resolve_arm(text, names)
    return arms_by_name(args.arm, args.series, lane, args.flavour)


def machine_lane(profile: Profile) -> str:
    """This machine's lane.

    Raises:
        GpuUnfitError: it has no GPU.
        UsageError: the profile is for another lane.
    """
    lane = detect_lane()
    if lane == "cpu":
        raise GpuUnfitError("there is no GPU to boot on", remedy="run it where nvidia-smi shows one")
    if profile.lane not in ("any-gpu", lane):
        raise UsageError(f"{profile.name} is for {profile.lane}, this machine is {lane}")
    return lane
