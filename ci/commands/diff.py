"""``python -m ci diff``: every result on disk against the baselines."""

from __future__ import annotations

import argparse
from pathlib import Path

from ci.commands import review
from ci.errors import ExitCode
from ci.gate.rows import GateVerdict
from ci.report.markdown import render_markdown
from ci.results.files import write_atomic

EXAMPLES = """\
examples:
  python -m ci diff                            the lanes that have run here, else the CPU lane
  python -m ci diff --lane rtx3090
  python -m ci diff --markdown out/diff.md     also write the comment for a pull request
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "diff",
        help="compare all results with the baselines",
        description="Re-read every planned suite of the lanes and compare it with its baseline. "
        "A planned suite that has not run is missing.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=Path, default=None, help="folder of the runs (default: out/runs)")
    parser.add_argument("--baselines", type=Path, help="default: baselines")
    parser.add_argument("--lane", action="append", help="only this lane; may be given several times")
    parser.add_argument("--markdown", type=Path, help="also write the report as Markdown to this file")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Compare, print, and return the verdict's exit code."""
    verdict = diff(
        args.runs or review.default_runs(), args.baselines or review.default_baselines(), args.lane
    )
    if args.markdown is not None:
        write_atomic(args.markdown, render_markdown(verdict).encode())
    review.show(verdict)
    return verdict.outcome[1]


def diff(runs: Path, baselines: Path, lanes: list[str] | None = None) -> GateVerdict:
    """Return the verdict over every planned, measured or accepted suite of the lanes."""
    rules = review.load_rules(baselines)
    suites = tuple(
        review.review_suite(rules, runs / lane / suite, lane, suite)[1]
        for lane in review.chosen_lanes(rules, runs, lanes)
        for suite in review.suites_of(rules, runs, lane)
    )
    return GateVerdict(suites, rules.notes)
