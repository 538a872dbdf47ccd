"""``python -m ci plot``: the times of kernelbench against the context, as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from ci.commands import review
from ci.errors import ExitCode, UsageError
from ci.gate.verdict import Verdict, last_line
from ci.report.kernelbench import draw_times
from ci.results.files import write_atomic
from ci.results.jsonl import is_slug, read_baseline, read_results
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
        description="Draw microseconds per call against the context, one line per arm, as an SVG picture.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--lane", required=True, help="whose records")
    parser.add_argument("--last", action="store_true", help="of the last run instead of the accepted ones")
    parser.add_argument("--out", type=Path, default=Path("out/kernelbench.svg"), help="default: %(default)s")
    parser.add_argument("--baselines", type=Path, help="default: baselines")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="default: out/runs")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Read the records, draw them, write the picture."""
    if not is_slug(args.lane):
        raise UsageError(f"--lane {args.lane!r}: a lane is named with a-z, 0-9, '.', '_' and '-'")
    if args.last:
        source = review.runs_folder(args.runs) / args.lane / SUITE / RECORDS_FILE
    else:
        source = (args.baselines or review.default_baselines()) / args.lane / f"{SUITE}.jsonl"
    if not source.is_file():
        raise UsageError(
            f"{source}: no such file",
            remedy=f"nox -s kernelbench -- --lane {args.lane}, on a machine of that lane; then --last",
        )
    found = read_results(source) if args.last else read_baseline(source)
    drawn = draw_times(found.head, found.records)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(args.out, drawn.encode())
    review.say(last_line(Verdict.PASS, f"{source} drawn into {args.out}", ExitCode.PASS) + "\n")
    return ExitCode.PASS
