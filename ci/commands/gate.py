"""``python -m ci gate``: every suite planned for a lane, then one table over all of them."""

from __future__ import annotations

import argparse

from ci.commands import review
from ci.commands.run import add_options, require_machine, run_folder, run_suites
from ci.commands.verdict import conclude_all
from ci.errors import ExitCode, UsageError
from ci.gate.plan import Plan
from ci.lanes.conditions import CPU_LANE
from ci.stack.installed import ROOT_VARIABLE, installed_arm

EPILOG = """\
examples:
  python -m ci gate                             all that needs no GPU, whatever this machine has
  python -m ci gate --lane rtx3090              what baselines/plan.toml plans for that lane
  python -m ci gate --series ../their-patches   the same suites on somebody else's series
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "gate",
        help="run every suite planned for a lane and judge all results",
        description="Run every suite that the plan has for a lane, then compare all results.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser, lane=CPU_LANE)
    parser.set_defaults(func=run, takes_rest=True)


def run(args: argparse.Namespace) -> ExitCode:
    """Run what is planned, then judge it: every planned suite counts, whatever became of its run."""
    rules = review.load_rules(review.default_baselines())
    if installed_arm() is not None:
        raise UsageError(
            f"{ROOT_VARIABLE} is set, and the gate judges the series", remedy=f"unset {ROOT_VARIABLE}"
        )
    planned = planned_suites(rules.plan, args.lane)
    require_machine(args.lane)
    run_suites(args, [(suite, args.lane) for suite in planned])
    known = review.suites_of(rules, review.default_runs(), args.lane)
    return conclude_all([run_folder(suite, args.lane) for suite in known], rules.folder)


def planned_suites(plan: Plan, lane: str) -> tuple[str, ...]:
    """The suites that the plan has for ``lane``.

    Raises:
        UsageError: it has none, so that there is nothing a verdict could be about.
    """
    suites = plan.suites_on(lane)
    if not suites:
        raise UsageError(
            f"{plan.path} plans nothing for lane {lane!r}",
            remedy=f"add the lane to the plan, or choose one of: {', '.join(plan.lanes)}",
        )
    return suites
