"""``python -m ci blame``: the first arm of the series in which a case turns red."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ci.commands import review
from ci.commands.run import add_options, choose_lanes, run_folder, run_suites
from ci.errors import ExitCode, UsageError
from ci.gate.plan import Plan
from ci.gate.rows import Cause, Row
from ci.gate.tables import matches
from ci.gate.verdict import Verdict, overall, verdict_word
from ci.lanes.run import OUT_VARIABLE
from ci.report.words import plain, show_value
from ci.stack.plan import plan_arms
from ci.stack.series import read_series, series_folder

MAX_NAMED = 20
"""Cases in an error's remedy."""
EXAMPLES = """\
examples:
  python -m ci blame pool share             runs the suite on every arm, from stock to the whole series
  python -m ci blame oracle 'units*' -n 2   cases that match, two workers
  python -m ci blame oracle law-tf32-emulated-20 -- -k law-tf32-emulated-20
                                            only the tests that measure it: minutes, not an hour
"""


class NoCaseError(UsageError):
    """A case that no arm could measure."""


@dataclass(frozen=True)
class Step:
    """What one arm did to the case."""

    arm: str
    verdict: Verdict
    code: ExitCode
    why: str
    """Of the first row that led to the verdict."""

    @property
    def green(self) -> bool:
        """Tell whether the case passes."""
        return self.code is ExitCode.PASS

    @property
    def red(self) -> bool:
        """Tell whether the case fails; an arm on which it cannot be measured is neither green nor red."""
        return self.code in (ExitCode.REGRESSED, ExitCode.CONTROL_FAILED)

    @property
    def word(self) -> str:
        """Return the verdict as it is shown."""
        return verdict_word(self.verdict, self.code)


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
    add_options(parser, takes_arm=False)
    parser.set_defaults(func=run, takes_rest=True)


def run(args: argparse.Namespace) -> ExitCode:
    """Walk the arms; the exit code is that of the arm to blame, 0 if the whole series passes."""
    if args.arm is not None:
        raise UsageError("blame walks all arms, so it takes no --arm", remedy="leave --arm out")
    rules = review.load_rules(review.default_baselines())
    ((suite, lane),) = choose_lanes([args.suite], args.lane, rules.plan)
    check_case(rules.plan, lane, suite, args.case)
    names = [plan.name for plan in plan_arms(read_series(series_folder(args.series)))]
    steps = walk(names, lambda arm: _judge(args, rules, suite, lane, arm))
    words, arms = (max(map(len, many)) for many in ([one.word for one in steps], names))
    for step in steps:
        review.say(f"{step.word:{words}}  {plain(step.arm):{arms}}  {plain(step.why)}\n")
    return conclude(steps, args.case)


def check_case(plan: Plan, lane: str, suite: str, case: str) -> None:
    """Refuse a mistyped case before every arm has run for nothing; a test's own name is not in the plan.

    Raises:
        NoCaseError: nothing that is planned has this name.
    """
    if "::" in case or any(matches(case, one.case) for one in plan.metrics(lane, suite)):
        return
    planned = list(dict.fromkeys(plain(one.case, 40) for one in plan.metrics(lane, suite)))
    raise NoCaseError(
        f"no case of {suite} on {lane} matches {plain(case)!r}",
        remedy=f"one of: {', '.join(planned[:MAX_NAMED])}" if planned else f"plan {suite} on {lane} first",
    )


def walk(arms: Sequence[str], judge: Callable[[str], Step]) -> list[Step]:
    """Judge every arm in the order of the series: a later patch may also mend what an earlier one broke."""
    return [judge(arm) for arm in arms]


def conclude(steps: Sequence[Step], case: str) -> ExitCode:
    """Print and return what the walk shows.

    Of the arms from the last green one to the whole series the first is to
    blame. Where no arm is green it is the first red one: before it the series
    may not have had what the case is about.
    """
    name = plain(case)
    if steps[-1].green:
        before = next((step for step in steps if not step.green), None)
        detail = f"{name} passes on {steps[-1].arm}"
        detail += f"; it was {before.word} on {before.arm}" if before else " and on every other arm"
        blamed = steps[-1]
    else:
        first = max((at for at, step in enumerate(steps) if step.green), default=-1) + 1
        if first == 0:
            first = next((at for at, step in enumerate(steps) if step.red), 0)
        blamed = steps[first]
        before = steps[first - 1] if first else None
        detail = f"{name}: {blamed.word} from {blamed.arm} on"
        detail += f", {'green' if before.green else before.word} on {before.arm}" if before else ""
        detail += "" if any(step.green for step in steps) else ": no arm passes"
    review.say(f"verdict: {blamed.word} - {detail} (exit {int(blamed.code)})\n")
    return blamed.code


def _judge(args: argparse.Namespace, rules: review.Rules, suite: str, lane: str, arm: str) -> Step:
    with _out(review.out_folder("blame", arm)):
        run_suites(argparse.Namespace(**{**vars(args), "arm": arm}), [(suite, lane)])
        verdict = review.review_suite(rules, run_folder(suite, lane), lane, suite, keep=None)[1]
    return step_of(arm, args.case, verdict.rows)


def step_of(arm: str, case: str, rows: Sequence[Row]) -> Step:
    """Return the step of an arm: what became of the case, or of the run as a whole.

    Without a single row there is nothing that could be green. Where the case
    has no verdict, a red test of the run may say why.
    """
    chosen = [row for row in rows if matches(case, row.case) or row.case == "-"]
    verdict, code = overall((row.verdict for row in chosen), any(row.control_failed for row in chosen))
    if not chosen:
        return Step(arm, verdict, code, "the case was neither measured nor planned")
    if code is ExitCode.PASS:
        return Step(arm, verdict, code, f"{len(chosen)} metrics pass")
    bad = min(chosen, key=lambda row: row.order)
    why = f"{plain(bad.case, 80)} {plain(bad.metric, 80)}: {bad.why}"
    if bad.got is not None and bad.baseline is not None and bad.cause is not Cause.TEST:
        why += f" ({show_value(bad.baseline)} -> {show_value(bad.got)})"
    test = next((row for row in rows if row.cause is Cause.TEST), None)
    if bad.cause is Cause.NO_RESULT and test is not None:
        why += f"; {test.case.rpartition('::')[2]}: {test.why}"
    return Step(arm, verdict, code, why)


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
