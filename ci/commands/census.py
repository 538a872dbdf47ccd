"""``python -m ci census``: which batches of a boot took which kernel, and what that breaks."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from ci.commands import boots, review
from ci.engine.boot import BootRun
from ci.engine.bootlog import read_boot_log
from ci.engine.census import questions, take_census
from ci.engine.identity import DEBUG
from ci.engine.logtext import read_log
from ci.engine.profile import Profile, load_profile
from ci.engine.server import Server
from ci.engine.session import Boot
from ci.errors import ExitCode, UsageError
from ci.gate.census import broken_rules, verify_widths
from ci.gate.verdict import Verdict, last_line
from ci.lanes.gpu import lease, read_state
from ci.report.census import render_census, render_census_markdown
from ci.results.census import Census
from ci.results.files import read_limited
from ci.stack.cache import cache_root

EPILOG = """\
examples:
  python -m ci census any-gpu-census15 --in-process     boot here, ask, and count
  python -m ci census --log boot.log --depth 15         count the lines of a boot that was made here
  python -m ci census --log theirs.log --whole          of somebody else's, which you know to be whole

A boot prints dispatch lines with VLLM_INT4_MQ_3D_DEBUG=1. What a captured graph replays prints nothing:
the table says which graph mode the boot had.
"""
LOG_LIMIT_BYTES = 1 << 28


@dataclass(frozen=True)
class CensusBoot:
    """A boot and its census."""

    census: Census
    run: BootRun
    asked: int
    """Requests."""
    answered: int
    breaches: int | None
    """As the engine counted them; without its own objects a log without a line of breach says 0."""
    capacities: tuple[int, ...]
    """Query tokens that the scratch declares, each once."""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "census",
        help="count which batches of a boot took which kernel",
        description="Boot a profile with its debug lines on, send requests that form every width of batch, "
        "and count the dispatch lines; or count those of a log.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("profile", nargs="?", help="a launch profile: ci/engine/profiles/NAME.toml")
    parser.add_argument("--log", type=Path, help="count the lines of this log instead of booting")
    parser.add_argument(
        "--whole", action="store_true", help="--log has no end mark of ours, and is not cut nevertheless"
    )
    parser.add_argument(
        "--depth", type=int, help="of the drafter in --log: which widths must be there (default: any)"
    )
    parser.add_argument("--layers", type=int, help="attention layers that print a line per step, in --log")
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    boots.add_machine_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Take a census and judge it."""
    if (args.profile is None) == (args.log is None):
        raise UsageError(
            "a profile to boot, or --log FILE, and not both", remedy="python -m ci census --help"
        )
    boots.require_positive("--depth", args.depth)
    boots.require_positive("--layers", args.layers)
    if args.log is not None:
        log = read_limited(args.log, LOG_LIMIT_BYTES)
        census = take_census(read_log(log))
        broken = broken_rules(census, verify_widths(args.depth) if args.depth else range(0))
        cut = not args.whole and not read_boot_log(log, str(args.log)).whole
        if cut:
            broken.append("the log was not closed by a boot of ours, so it may be cut: --whole if it is not")
        return conclude(census, broken, args.layers, args.markdown, str(args.log), unread=cut)
    profile = debugged(load_profile(args.profile))
    session, folder = boots.open_session(args, profile)
    with lease(read_state().uuid or "unnamed", cache_root() / "leases", f"census {profile.name}"):
        one = boot_census(session, folder / "census")
    broken = broken_boot(one, profile)
    return conclude(one.census, broken, None, args.markdown, profile.name, unread=bool(unfit(one)))


def conclude(
    census: Census,
    broken: list[str],
    layers: int | None,
    as_markdown: bool,
    name: str,
    *,
    unread: bool = False,
) -> ExitCode:
    """Show the table, what is broken, and the verdict; a log that is not whole gives none."""
    render = render_census_markdown if as_markdown else render_census
    review.say(render(census, layers))
    for sentence in broken:
        review.say(f"broken: {sentence}\n")
    unread = unread or (bool(broken) and unreadable(census))
    verdict = Verdict.INVALID if unread else Verdict.REGRESSED if broken else Verdict.PASS
    code = verdict.exit_code
    review.say(last_line(verdict, f"census of {name}, {len(broken)} rules broken", code) + "\n")
    return code


def unreadable(census: Census) -> bool:
    """Whether there are no dispatch lines, or some that are cut: a broken rule may then be only unseen."""
    return not census.calls or bool(census.cut_lines)


def debugged(profile: Profile) -> Profile:
    """The profile, refused unless its boots print dispatch lines."""
    if profile.env.get(DEBUG) != "1":
        raise UsageError(
            f"{profile.name} boots without {DEBUG}=1, so it prints no dispatch line",
            remedy="any-gpu-census15, or a profile of your own with that line under [env]",
        )
    return profile


def boot_census(session: boots.Session, folder: Path) -> CensusBoot:
    """Boot once, ask every question, and count what the log then holds."""
    serve = session.profile.serve
    seqs = min(serve.max_num_seqs)
    try:
        asked = questions(serve.max_model_len, seqs)
    except ValueError as error:
        raise UsageError(f"{session.profile.name}: {error}") from error
    answers: list[bool] = []
    exact: dict[str, object] = {}

    def ask(server: Server) -> None:
        answers.extend(bool(server.complete(prompts, max_tokens)) for prompts, max_tokens in asked)
        exact.update(json.loads(server.get("/exact") or "{}"))

    run = session.boot(Boot(session.subject, seqs, 1), folder, ask)
    log = read_log((folder / "boot.log").read_bytes())
    census = take_census(log)
    return CensusBoot(
        census=census,
        run=run,
        asked=len(asked),
        answered=sum(answers),
        breaches=breaches_of(exact, census),
        capacities=capacities_of(run),
    )


def breaches_of(exact: dict[str, object], census: Census) -> int | None:
    """Breaches that the engine counted; where it cannot be asked, the first one would have written a line."""
    state = exact.get("breach")
    if isinstance(state, dict):
        return boots.whole(state.get("count"))
    return None if census.degraded_lines else 0


def capacities_of(run: BootRun) -> tuple[int, ...]:
    """What the scratch lines of a boot declare."""
    return tuple(sorted({line.capacity for line in run.report.scratch if line.capacity is not None}))


def unfit(one: CensusBoot) -> list[str]:
    """Why a boot says nothing about its batches: it broke off, or did not answer everything."""
    found = []
    if not one.run.report.whole:
        found.append(f"the boot is not whole: {one.run.report.outcome.value}, {one.run.report.cause}")
    if one.answered != one.asked:
        found.append(f"{one.answered} of {one.asked} requests were answered")
    return found


def broken_boot(one: CensusBoot, profile: Profile) -> list[str]:
    """What a census boot breaks, and why it may say nothing."""
    return broken_rules(one.census, verify_widths(profile.model.depth), one.breaches) + unfit(one)
