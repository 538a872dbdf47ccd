"""``python -m ci trend``: accepted values over the git history of the baselines."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ci.commands import review
from ci.commands.history import read_history
from ci.errors import ExitCode, UsageError
from ci.gate.tables import matches
from ci.gate.verdict import Verdict, last_line
from ci.report.charts import Point, number
from ci.report.words import plain

MAX_METRICS = 200
BLOCKS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
EXAMPLES = """\
examples:
  python -m ci trend 'cpu/membudget/seqs-8/*'
  python -m ci trend '*/kernelbench/*/us_3d' --changed
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "trend",
        help="draw accepted values over the history of the baselines",
        description="Show how the accepted values of metrics changed, commit by commit.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("pattern", help="LANE/SUITE/CASE/METRIC; * and ? are wildcards")
    parser.add_argument("--changed", action="store_true", help="only metrics whose value changed")
    parser.add_argument("--baselines", type=Path, help="default: baselines")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Draw every chosen metric."""
    history = read_history(args.baselines or review.default_baselines())
    named = {"/".join(key): points for key, points in history.items()}
    chosen = {name: points for name, points in named.items() if matches(args.pattern, name)}
    if not chosen:
        raise UsageError(
            f"no metric in the history matches {plain(args.pattern)!r}",
            remedy="write LANE/SUITE/CASE/METRIC with * and ?; what is not committed has no history",
        )
    if args.changed:
        chosen = {name: points for name, points in chosen.items() if len(points) > 1}
    for name in list(chosen)[:MAX_METRICS]:
        review.say(render_trend(name, chosen[name]))
    left = len(chosen) - MAX_METRICS
    review.say(f"{left} more metrics are not shown\n" if left > 0 else "")
    what = f"{len(chosen)} metrics{' that changed' if args.changed else ''}"
    review.say(last_line(Verdict.PASS, f"trend of {what}", ExitCode.PASS) + "\n")
    return ExitCode.PASS


def render_trend(name: str, points: Sequence[Point]) -> str:
    """Return the curve of a metric, its first and last value, and the days on which it changed."""
    lines = [f"{plain(name)}  {curve(points)}"]
    lines += [f"  {plain(point.date, 20)}  {plain(str(point.value), 80)}" for point in points]
    return "\n".join(lines) + "\n"


def curve(points: Sequence[Point]) -> str:
    """Return one block per value, low to high; nothing where there is no number."""
    values = [value for value in (number(point.value) for point in points) if value is not None]
    if not values:
        return ""
    low, high = min(values), max(values)
    step = (high - low) / (len(BLOCKS) - 1) or 1.0
    return "".join(BLOCKS[round((value - low) / step)] for value in values)
