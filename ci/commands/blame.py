"""``python -m ci blame``: the first arm of the series in which a case turns red."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ci.commands import review
from ci.commands.run import DEFAULT_ARM, add_options, choose_lanes, run_folder, run_suites
from ci.errors import ExitCode, UsageError
from ci.gate.rows import Row
from ci.gate.tables import matches
from ci.gate.verdict import Verdict
from ci.report.words import plain
from ci.stack.plan import plan_arms
from ci.stack.series import read_series, series_folder

OUT_VARIABLE = "FORKPROOF_OUT"
EXAMPLES = """\
examples:
  python -m ci blame pool share             runs the suite on every arm, from stock to the whole series
  python -m ci blame oracle 'units*' -n 2   cases that match, two workers
"""


@dataclass(frozen=True)
class Step:
    """What one arm did to the case."""

    arm: str
    red: bool
    why: str
    """Of the first row that does not pass."""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "blame",
        help="name the first arm of the series in which a case turns red",
        description="Run a suite on every arm of the series, each into a folder of its own, and compare the "
        "case with the same baseline.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suite", help="the suite that measures the case")
    parser.add_argument("case", help="the case; * and ? are wildcards")
    add_options(parser)
    parser.set_defaults(func=run, takes_rest=True)


def run(args: argparse.Namespace) -> ExitCode:
    """Walk the arms; exit 1 if one of them turns the case red, 0 if none does."""
    if args.arm not in (None, DEFAULT_ARM):
        raise UsageError("blame walks all arms, so it takes no --arm", remedy="leave --arm out")
    rules = review.load_rules(review.default_baselines())
    ((suite, lane),) = choose_lanes([args.suite], args.lane, rules.plan)
    names = [plan.name for plan in plan_arms(read_series(series_folder(args.series)))]
    steps = walk(names, lambda arm: _judge(args, rules, suite, lane, arm))
    for step in steps:
        review.say(f"{'red  ' if step.red else 'green'}  {plain(step.arm)}  {plain(step.why)}\n")
    return conclude(steps, args.case)


def walk(arms: Sequence[str], judge: Callable[[str], Step]) -> list[Step]:
    """Judge every arm in the order of the series: a later patch may also mend what an earlier one broke."""
    return [judge(arm) for arm in arms]


def conclude(steps: Sequence[Step], case: str) -> ExitCode:
    """Print and return what the walk shows.

    The blamed arm is the last one that is red behind a green one or at the very
    start, if the whole series is red; the patch between the two is the cause.
    """
    name = plain(case)
    if not steps[-1].red:
        first = next((step.arm for step in steps if step.red), None)
        detail = f"{name} passes on {steps[-1].arm}"
        detail += f"; it was red on {first}" if first else " and on every other arm"
        code = ExitCode.PASS
    else:
        index = len(steps) - 1
        while index > 0 and steps[index - 1].red:
            index -= 1
        before = f", green on {steps[index - 1].arm}" if index else ": no arm passes"
        detail = f"{name} is red from {steps[index].arm} on{before}"
        code = ExitCode.REGRESSED
    word = Verdict.PASS.value if code is ExitCode.PASS else Verdict.REGRESSED.value
    review.say(f"verdict: {word} - {detail} (exit {int(code)})\n")
    return code


def _judge(args: argparse.Namespace, rules: review.Rules, suite: str, lane: str, arm: str) -> Step:
    with _out(review.default_runs().parent / "blame" / arm):
        run_suites(argparse.Namespace(**{**vars(args), "arm": arm}), [(suite, lane)])
        verdict = review.review_suite(rules, run_folder(suite, lane), lane, suite)[1]
    return step_of(arm, [row for row in verdict.rows if matches(args.case, row.case) or row.case == "-"])


def step_of(arm: str, rows: Sequence[Row]) -> Step:
    """Return the step of an arm; without a single row there is nothing that could be green."""
    bad = [row for row in rows if row.verdict.exit_code is not ExitCode.PASS]
    if bad:
        return Step(arm, True, f"{bad[0].case} {bad[0].metric}: {bad[0].verdict.value}: {bad[0].why}")
    return Step(
        arm, not rows, f"{len(rows)} metrics pass" if rows else "the case was neither measured nor planned"
    )


@contextmanager
def _out(folder: Path) -> Iterator[None]:
    """Let runs go to ``folder``, so that they do not replace the results that are looked at."""
    before = os.environ.get(OUT_VARIABLE)
    os.environ[OUT_VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[OUT_VARIABLE]
        else:
            os.environ[OUT_VARIABLE] = before
