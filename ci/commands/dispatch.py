"""``python -m ci dispatch``: run suites on another lane's machine and compare what it brings back."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from ci.commands import review
from ci.commands.collect import fetch_run
from ci.commands.diff import diff
from ci.commands.matrix import split_words
from ci.errors import ExitCode, UsageError
from ci.lanes.dispatch import Clock, follow, require_runners, start
from ci.lanes.event import Event, EventKind
from ci.lanes.github import GitHub, this_repository
from ci.lanes.matrix import MATRIX_FILE, JobPlan, Where, parse_matrix, plan_jobs
from ci.results.parcel import unpack

EPILOG = """\
examples:
  python -m ci dispatch --lane rtx3090 --suite oracle
  python -m ci dispatch --lane "rtx3090 rtx4090"           every suite of both lanes
  python -m ci dispatch --lane rtx3090 --ref my-branch     a pushed branch other than this one

Needs gh, logged in. The repository is that of the remote origin, or GITHUB_REPOSITORY=OWNER/NAME.
The results come to out/dispatch/RUN/.
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "dispatch",
        help="run suites on the machine of another lane and compare the results here",
        description="Start the GPU workflow, wait for it, bring its results back and compare them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--lane", action="append", required=True, help="the lane; may be repeated")
    parser.add_argument(
        "--suite", action="append", default=[], help="the suite; may be repeated (default: all)"
    )
    parser.add_argument("--ref", help="a branch that is pushed (default: the present one)")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Start, wait, fetch, compare."""
    github, clock = this_repository(), Clock()
    lanes, suites = split_words(args.lane), split_words(args.suite)
    plan = chosen(lanes, suites)
    cells = plan.of(Where.SELF_HOSTED)
    note = require_runners(cells, github.online_runners())
    if note:
        print(f"note: {note}")
    started = start(github, args.ref or current_branch(), lanes, suites, clock)
    print(f"https://github.com/{github.repository}/actions/runs/{started.id}", flush=True)
    ended = follow(github, started, clock, lambda text: print(text, flush=True))
    return bring_back(github, ended.id, plan)


def chosen(lanes: list[str], suites: list[str]) -> JobPlan:
    """The jobs that the choice means.

    Raises:
        UsageError: the matrix has no such lane or suite, or the lane is a hosted one.
    """
    matrix = parse_matrix(MATRIX_FILE.read_text(encoding="utf-8"))
    plan = plan_jobs(matrix, Event(EventKind.MANUAL), lanes, suites)
    if not plan.of(Where.SELF_HOSTED):
        raise UsageError(f"{', '.join(lanes)} needs no other machine", remedy="nox -s gate")
    return plan


def current_branch() -> str:
    """The branch that is checked out.

    Raises:
        UsageError: none is.
    """
    done = subprocess.run(["git", "branch", "--show-current"], capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        raise UsageError("no branch is checked out", remedy="--ref BRANCH, one that is pushed")
    return done.stdout.strip()


def bring_back(github: GitHub, number: int, plan: JobPlan) -> ExitCode:
    """Fetch the results and compare them; a run without any is no verdict, however it ended."""
    lanes = sorted({cell.lane for cell in plan.of(Where.SELF_HOSTED)})
    into = review.out_folder("dispatch", str(number))
    with tempfile.TemporaryDirectory() as folder:
        for archive in fetch_run(github, number, Path(folder)):
            unpack(archive, into, lanes)
    verdict = diff(into, review.default_baselines(), lanes, plan.not_due)
    review.show(verdict)
    return verdict.outcome[1]
