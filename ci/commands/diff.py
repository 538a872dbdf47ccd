"""``python -m ci diff``: every result on disk against the baselines."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from ci.commands import review
from ci.commands.history import read_history
from ci.errors import ExitCode, GateError
from ci.gate.rows import GateVerdict
from ci.report.annotations import render_annotations
from ci.report.junit_out import render_junit
from ci.report.markdown import render_markdown, render_summary
from ci.report.page import render_page
from ci.report.words import plain
from ci.results.files import append, write_report
from ci.results.folder import SuiteFiles
from ci.stack.plan import plan_arms
from ci.stack.series import read_series, series_folder

EXAMPLES = """\
examples:
  python -m ci diff                            the lanes that have run here, else the CPU lane
  python -m ci diff --lane rtx3090
  python -m ci diff --markdown out/diff.md     also write the comment for a pull request
  python -m ci diff --html out/report.html     also write the page with plots
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
    parser.add_argument("--markdown", type=Path, help="write the comment for a pull request to this file")
    parser.add_argument(
        "--summary", type=Path, help="append the job summary to this file, as GitHub wants it"
    )
    parser.add_argument("--html", type=Path, help="write the page with plots and history to this file")
    parser.add_argument("--junit", type=Path, help="write the verdict as JUnit XML to this file")
    parser.add_argument(
        "--annotations", action="store_true", help="print the worst rows as GitHub annotations"
    )
    parser.add_argument("--link", default="", help="https address of the whole report, for what is cut short")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Compare, print, and return the verdict's exit code."""
    baselines = args.baselines or review.default_baselines()
    verdict = diff(review.runs_folder(args.runs), baselines, args.lane)
    if args.markdown is not None:
        write_report(args.markdown, render_markdown(verdict, more_at=args.link).encode())
    if args.summary is not None:
        append(args.summary, render_summary(verdict, more_at=args.link).encode())
    if args.html is not None:
        write_report(args.html, render_page(verdict, history=read_history(baselines)).encode())
    if args.junit is not None:
        write_report(args.junit, render_junit(verdict))
    if args.annotations:
        review.say(render_annotations(verdict))
    review.show(verdict)
    return verdict.outcome[1]


def diff(
    runs: Path, baselines: Path, lanes: list[str] | None = None, not_due: Collection[tuple[str, str]] = ()
) -> GateVerdict:
    """Return the verdict over every planned, measured or accepted suite of the lanes.

    Args:
        runs: the folder of all runs.
        baselines: plan, policy and accepted records.
        lanes: lanes to compare; None for those that have run.
        not_due: lane and suite of each run that nobody waits for; one that is there is compared all the same.
    """
    rules = review.load_rules(baselines)
    reviewed = [
        review.review_suite(rules, runs / lane / suite, lane, suite)
        for lane in review.chosen_lanes(rules, runs, lanes)
        for suite in review.suites_of(rules, runs, lane)
        if (lane, suite) not in not_due or (runs / lane / suite).exists()
    ]
    notes = outdated([files for files, _ in reviewed], series_hashes())
    return GateVerdict(tuple(verdict for _, verdict in reviewed), (*rules.notes, *notes))


def series_hashes() -> dict[str, str]:
    """Series hash of each arm as the patches on disk make it; empty where they cannot be read."""
    try:
        return {plan.name: plan.series_hash for plan in plan_arms(read_series(series_folder(None)))}
    except GateError:
        return {}  # whoever only compares results needs no series


def outdated(reviewed: Iterable[SuiteFiles], hashes: Mapping[str, str]) -> list[str]:
    """Say of each run whose arm the patches no longer make, that its verdict is not about them.

    Args:
        reviewed: the files of each run.
        hashes: by arm, as of `series_hashes`.
    """
    found = []
    for files in reviewed:
        subject = files.results.head.subject if files.results else None
        now = hashes.get(subject.arm) if subject else None
        if subject and now and subject.series_hash != now:
            found.append(
                f"{files.lane}/{files.suite}: measured on {plain(subject.arm, 40)} "
                f"{plain(subject.series_hash, 12)}, and the patches now make {now[:12]} of it: "
                f"run it again to judge them"
            )
    return found
