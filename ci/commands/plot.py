"""``python -m ci plot``: the times of kernelbench against the context, as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from ci.commands import review
from ci.errors import ExitCode, UsageError
from ci.gate.plan import Plan
from ci.gate.verdict import Verdict, last_line
from ci.report.kernelbench import draw_times
from ci.results.files import write_report
from ci.results.jsonl import read_baseline, read_results
from ci.results.recorder import RECORDS_FILE

SUITE = "kernelbench"
EPILOG = """\
examples:
  python -m ci plot --lane h200 --out docs/kernelbench.svg    what is accepted for a lane
  python -m ci plot --lane h200 --last                        what the last run measured
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "plot",
        help="draw the times of kernelbench against the context",
        description="Draw microseconds per call against the context as an SVG picture: "
        "lines for the arm under test, stock, mq3d and the bytes alone.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--lane", required=True, help="whose records")
    parser.add_argument("--last", action="store_true", help="of the last run instead of the accepted ones")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="default: kernelbench.svg in $FORKPROOF_OUT, or in out/"
    )
    parser.add_argument("--baselines", type=Path, help="default: baselines")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="default: out/runs")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Read the records, draw them, write the picture."""
    rules = review.load_rules(args.baselines or review.default_baselines())
    check_lane(args.lane, rules.plan)
    if args.last:
        source = review.runs_folder(args.runs) / args.lane / SUITE / RECORDS_FILE
    else:
        source = rules.baseline_path(args.lane, SUITE)
    if not source.is_file():
        raise UsageError(
            f"{source}: no such file",
            remedy=f"nox -s kernelbench -- --lane {args.lane}, on a machine of that lane; then --last",
        )
    found = read_results(source) if args.last else read_baseline(source)
    drawn = draw_times(found.head, found.records)
    out: Path = args.out or review.out_folder() / "kernelbench.svg"
    write_report(out, drawn.encode())
    review.say(last_line(Verdict.PASS, f"{source} drawn into {out}", ExitCode.PASS) + "\n")
    return ExitCode.PASS


def check_lane(lane: str, plan: Plan) -> None:
    """Refuse a lane on which the suite is not planned, since no run there will bring times.

    Raises:
        UsageError: naming the lanes on which it is.
    """
    planned = [one for one in plan.lanes if plan.metrics(one, SUITE)]
    if lane not in planned:
        raise UsageError(
            f"--lane {lane}: {SUITE} is not planned there", remedy=f"one of: {', '.join(planned)}"
        )
