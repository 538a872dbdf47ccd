"""``python -m ci rehearse``: the workflows, run on this machine for five events."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from ci.errors import ExitCode, UsageError
from ci.rehearsal.play import SCENARIOS, play

FOLDER = Path("out/rehearsal")
EPILOG = """\
examples:
  python -m ci rehearse                        all five events
  python -m ci rehearse own-green fork         two of them

Logs of each workflow, and what was sent to GitHub, stay in out/rehearsal/EVENT/.
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "rehearse",
        help="run the workflows on this machine, with stand-ins for GitHub",
        description="Run ci, gpu and report for a pull request with an interpreter of workflows (act).",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument("events", nargs="*", metavar="EVENT", help=f"of: {', '.join(names)} (default: all)")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Play each scenario and hold it against what it has to show."""
    chosen = [scenario for scenario in SCENARIOS if scenario.name in args.events or not args.events]
    names = [scenario.name for scenario in SCENARIOS]
    unknown = sorted(set(args.events) - set(names))
    if unknown:
        raise UsageError(f"there is no event {', '.join(unknown)}", remedy=f"one of: {', '.join(names)}")
    bad: list[str] = []
    for scenario in chosen:
        folder = FOLDER.absolute() / scenario.name
        shutil.rmtree(folder, ignore_errors=True)
        outcome = play(scenario, folder)
        verdict = "as it should be" if not outcome.problems else "NOT as it should be"
        print(
            f"{scenario.name:<16} status {outcome.status:<8} {outcome.seconds:5.1f} s  {verdict}", flush=True
        )
        for problem in outcome.problems:
            print(f"  {problem}; see {folder}")
            bad.append(problem)
    code = ExitCode.NO_VERDICT if bad else ExitCode.PASS
    word = "pass" if code is ExitCode.PASS else "no verdict"
    print(f"verdict: {word} - {len(chosen)} events rehearsed, {len(bad)} problems (exit {int(code)})")
    return code
