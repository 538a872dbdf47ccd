"""``python -m ci sweep``: end what a killed run left behind, so that it holds no GPU memory."""

from __future__ import annotations

import argparse

from ci.engine.orphans import abandoned, end_marked
from ci.errors import ExitCode

EPILOG = """\
examples:
  python -m ci sweep                       before a job, after it, and after a cancelled one
  python -m ci sweep --dry-run             only say what there is

Only processes that carry the mark of one of our boots, and whose harness is gone, are ended.
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "sweep",
        help="end engines whose harness is gone",
        description="End every process of an engine that was started here and lost its harness.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dry-run", action="store_true", help="end nothing")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """End the abandoned processes, and look again."""
    found = abandoned()
    for pid, mark in found:
        print(f"abandoned: process {pid} of boot {mark}")
    if not args.dry_run:
        for mark in {mark for _, mark in found}:
            end_marked(mark)
    left = abandoned()
    code = ExitCode.NO_VERDICT if left else ExitCode.PASS
    words = (
        f"{len(left)} still there"
        if left
        else f"{len(found)} processes ended"
        if found
        else "nothing left behind"
    )
    print(f"verdict: {'no verdict' if left else 'pass'} - {words} (exit {int(code)})")
    return code
