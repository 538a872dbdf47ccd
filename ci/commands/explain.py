"""``python -m ci explain``: one case with everything that led to its verdict."""

from __future__ import annotations

import argparse
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from ci.commands import review
from ci.commands.history import read_history
from ci.errors import ExitCode, UsageError
from ci.gate.plan import Plan
from ci.gate.rows import GateVerdict, Row, SuiteVerdict
from ci.gate.tables import matches
from ci.gate.verdict import Verdict, last_line
from ci.report.charts import Point
from ci.report.explain import Explained, render_explanation
from ci.report.words import plain
from ci.results.folder import SuiteFiles

MAX_ROWS = 50
EXAMPLES = """\
examples:
  python -m ci explain 'units-[16,1]'                  every metric of a case, on the lanes that have run
  python -m ci explain grid --metric violations        one metric
  python -m ci explain '*' --suite oracle --red        whatever does not pass
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "explain",
        help="say why a case has its verdict, and how to repeat it here",
        description="Show what was expected and measured, the policy line and its origin, the conditions on "
        "both sides, the history, and the command that measures it again.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("case", help="name of the case; * and ? are wildcards")
    parser.add_argument("--metric", default="*", help="only metrics that match")
    parser.add_argument("--lane", action="append", help="only this lane; may be given several times")
    parser.add_argument("--suite", default="*", help="only suites that match")
    parser.add_argument("--red", action="store_true", help="only what does not pass")
    parser.add_argument("--runs", type=Path, default=None, help="folder of the runs (default: out/runs)")
    parser.add_argument("--baselines", type=Path, help="default: baselines")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Explain the chosen rows; the exit code is that of their verdicts."""
    rules = review.load_rules(args.baselines or review.default_baselines())
    runs = review.runs_folder(args.runs)
    history = read_history(rules.folder)
    known, shown, suites = 0, 0, []
    for lane in review.chosen_lanes(rules, runs, args.lane):
        for suite in review.suites_of(rules, runs, lane):
            if not matches(args.suite, suite):
                continue
            files, verdict = review.review_suite(rules, runs / lane / suite, lane, suite)
            named = [row for row in verdict.rows if _named(row, args)]
            rows = [row for row in named if not (args.red and row.verdict.exit_code is ExitCode.PASS)]
            known += len(named)
            suites.append(SuiteVerdict(lane, suite, tuple(rows)))
            for row in rows[: max(0, MAX_ROWS - shown)]:
                points = history.get((row.lane, row.suite, row.case, row.metric), [])
                explained = _explained(row, files, rules, tuple(points))
                review.say(render_explanation(explained, datetime.now(UTC).date()) + "\n")
            shown += len(rows)
    if not shown and known and args.red:
        review.say(last_line(Verdict.PASS, f"nothing red of {plain(args.case)}", ExitCode.PASS) + "\n")
        return ExitCode.PASS
    if not shown:
        _refuse(rules.plan, runs, args)
    if shown > MAX_ROWS:
        review.say(f"{shown - MAX_ROWS} more rows are not shown\n")
    joined = GateVerdict(tuple(one for one in suites if one.rows))
    outcome, code = joined.outcome
    review.say(last_line(outcome, plain(joined.detail), code) + "\n")
    return code


def _named(row: Row, args: argparse.Namespace) -> bool:
    return matches(args.case, row.case) and matches(args.metric, row.metric)


def _refuse(plan: Plan, runs: Path, args: argparse.Namespace) -> NoReturn:
    """Say that there is nothing to explain; where the case is planned but was not measured, what to run."""
    for (lane, suite), metrics in plan.suites.items():
        asked = lane in (args.lane or plan.lanes) and matches(args.suite, suite)
        if asked and not (runs / lane / suite).is_dir() and any(matches(args.case, m.case) for m in metrics):
            trend = f"python -m ci trend {shlex.quote(f'{lane}/{suite}/{plain(args.case)}/*')}"
            raise UsageError(
                f"case {plain(args.case)!r} is planned in {suite} on {lane}, which has not run here",
                remedy=f"python -m ci run {suite} --lane {lane}; what is accepted: {trend}",
            )
    raise UsageError(
        f"no row of a case {plain(args.case)!r}",
        remedy="* and ? are wildcards; python -m ci diff names the cases",
    )


def _explained(row: Row, files: SuiteFiles, rules: review.Rules, history: tuple[Point, ...]) -> Explained:
    return Explained(
        row,
        rules.policy.rule_for(row.suite, row.case, row.metric),
        files.results.head if files.results else None,
        files.baseline.head if files.baseline else None,
        history,
    )
