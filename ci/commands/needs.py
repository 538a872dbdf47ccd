"""``python -m ci needs``: the last job of a workflow, red unless every other one succeeded."""

from __future__ import annotations

import argparse
import os

from ci.errors import ExitCode, UsageError
from ci.lanes.needs import unmet

VARIABLE = "NEEDS"
EPILOG = f"""\
examples:
  {VARIABLE}='{{"lint": {{"result": "success"}}}}' python -m ci needs
  python -m ci needs                              in a workflow, with {VARIABLE} set to toJSON(needs)

A branch rule takes a skipped job for a green one; this job is never skipped and says which were.
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "needs",
        help="end red unless every job that the workflow's last one waits for succeeded",
        description=f"Read the results of a workflow's jobs from {VARIABLE}.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Say which jobs did not succeed."""
    data = os.environ.get(VARIABLE)
    if data is None:
        raise UsageError(f"{VARIABLE} is not set", remedy=f"{VARIABLE}: ${{{{ toJSON(needs) }}}} in the step")
    bad = unmet(data.encode())
    for name, result in bad:
        print(f"{name}: {result}")
    code = ExitCode.NO_VERDICT if bad else ExitCode.PASS
    detail = f"without success: {', '.join(name for name, _ in bad)}" if bad else "every job succeeded"
    print(f"verdict: {'no verdict' if bad else 'pass'} - {detail} (exit {int(code)})")
    return code
