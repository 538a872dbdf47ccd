"""``python -m ci collect``: what other jobs uploaded, unpacked strictly, compared, and reported."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ci.commands import review
from ci.commands.diff import diff
from ci.errors import ExitCode, GateError, UsageError
from ci.lanes.github import GitHub, Pull, Run, check_commit, this_repository
from ci.lanes.matrix import MATRIX_FILE, JobPlan, parse_matrix, plan_jobs
from ci.lanes.ownrules import unpack_rules
from ci.lanes.standing import (
    LaneState,
    Standing,
    event_of,
    is_ours,
    lane_states,
    latest,
    newest_uploads,
    overall,
    plan_of_push,
    upload_of,
)
from ci.report.markdown import MARKER, prose, render_markdown
from ci.results.files import append, write_atomic
from ci.results.parcel import MAX_ARCHIVE_BYTES, unpack

REPORT = Path("out/report")
MAX_BODY_BYTES = 60_000
"""The table of lanes stands before it; GitHub takes 65,536 characters in all."""
MAX_REFUSED = 5
WORDS = {
    ExitCode.PASS: "pass",
    ExitCode.REGRESSED: "regressed",
    ExitCode.NO_VERDICT: "no verdict",
    ExitCode.CONTROL_FAILED: "control failed",
}
EPILOG = """\
examples:
  python -m ci collect --from downloads/                   archives on this machine, into out/runs
  python -m ci collect --run 1234567 --into out/runs       the uploads of one run
  python -m ci collect --github --commit 0123456789012345678901234567890123456789

Archives are data from a stranger: an unexpected name, size, link, DOCTYPE or lane is refused (exit 2).
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "collect",
        help="unpack what other jobs uploaded, strictly, and report it on the commit",
        description="Take results over from artifacts.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--from", dest="folder", type=Path, metavar="DIR", help="folder of *.zip archives")
    source.add_argument("--run", type=int, metavar="NUMBER", help="number of a workflow run")
    source.add_argument("--github", action="store_true", help="report on a commit: comment and status")
    parser.add_argument("--into", type=Path, help="folder of the runs (default: out/runs)")
    parser.add_argument("--commit", default="", help="the commit to report on")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Collect, and report if asked to."""
    if args.github:
        return report(this_repository(), check_commit(args.commit))
    into = args.into or review.default_runs()
    if args.run is not None:
        with tempfile.TemporaryDirectory() as folder:
            archives = fetch_run(this_repository(), args.run, Path(folder))
            return take(archives, into)
    return take(sorted(args.folder.glob("*.zip")), into)


def take(archives: Sequence[Path], into: Path) -> ExitCode:
    """Unpack archives, all of which have to be good."""
    if not archives:
        raise UsageError("there is no archive to collect")
    runs = [found for archive in archives for found in unpack(archive, into)]
    names = ", ".join(f"{lane}/{suite}" for lane, suite in runs)
    print(f"verdict: pass - {len(runs)} runs collected: {names} (exit 0)")
    return ExitCode.PASS


def fetch_run(github: GitHub, number: int, folder: Path) -> list[Path]:
    """Download every upload of a run that holds results."""
    archives = []
    for artifact in newest_uploads(github.artifacts_of(number)):
        path = folder / f"{artifact.id}.zip"
        github.download(artifact, path, MAX_ARCHIVE_BYTES)
        archives.append(path)
    return archives


def report(github: GitHub, commit: str) -> ExitCode:
    """Compare what came for a commit with what was planned, and say so on the commit.

    A refused artifact makes its lane red and the command end with 2; the other lanes are reported.
    """
    try:
        return _report(github, commit)
    except GateError as error:
        # Else the commit would keep what an earlier report said of it, or nothing at all.
        line = f"no report: {error.what.partition(chr(10))[0]}"
        github.set_status(commit, Standing.FAILURE.value, line, run_link(github))
        raise


def _report(github: GitHub, commit: str) -> ExitCode:
    found = github.runs_of(commit)
    pull = min(github.pulls_of(commit, found), key=lambda one: one.number, default=None)
    runs = latest(found, commit)
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "runs"
        own = is_ours(pull, runs, github.repository)
        if pull is None and not own:
            # Started by hand on a branch, or closed or pushed over in the meantime.
            print(f"verdict: pass - {commit[:12]} is no pull request's and nobody pushed it to main (exit 0)")
            return ExitCode.PASS
        matrix, baselines = held_against(github, commit, Path(folder)) if own else defaults()
        plan = planned(github, pull, runs.get("gpu"), matrix)
        came, refused = collect_cells(github, plan, runs, Path(folder), into)
        codes, body = compare(into, plan, came, baselines)
    states = lane_states(plan, runs, came, codes)
    standing, line = overall(states)
    page = compose(body, states, refused)
    shutil.rmtree(REPORT, ignore_errors=True)
    write_atomic(REPORT / "comment.md", page.encode())
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        append(Path(summary), page.encode())
    if pull is not None:
        github.comment(pull.number, MARKER, page)
    github.set_status(commit, standing.value, line, run_link(github))
    code = ExitCode.PASS if standing is Standing.SUCCESS else ExitCode.NO_VERDICT
    if ExitCode.REGRESSED in codes.values():
        code = ExitCode.REGRESSED
    if ExitCode.CONTROL_FAILED in codes.values():
        code = ExitCode.CONTROL_FAILED
    for problem in refused:
        print(problem)
    # A lane that waits for a person is no failure of this job; what was refused or is missing is.
    done = ExitCode.PASS if standing is Standing.PENDING and not refused else code
    print(f"verdict: {WORDS[done]} - {standing.value}: {line} (exit {int(done)})")
    return done


def defaults() -> tuple[Path, Path]:
    """The matrix and the baselines of the default branch, which is checked out here."""
    return MATRIX_FILE, review.default_baselines()


def held_against(github: GitHub, commit: str, folder: Path) -> tuple[Path, Path]:
    """The matrix and the baselines of a commit of this repository."""
    archive = folder / "commit.tar.gz"
    github.tree(commit, archive)
    return unpack_rules(archive, folder / "commit")


def planned(github: GitHub, pull: Pull | None, gpu: Run | None, matrix: Path) -> JobPlan:
    """What the commit should get: no artifact has a say in it."""
    changed = github.files_of(pull.number) if pull is not None else None
    event = event_of(pull, github.repository, changed)
    plan = plan_jobs(parse_matrix(matrix.read_text(encoding="utf-8")), event)
    if pull is not None or gpu is None or gpu.event != "push":
        return plan
    return plan_of_push(plan, gpu, github.jobs_of(gpu.id))


def collect_cells(
    github: GitHub, plan: JobPlan, runs: Mapping[str, Run], folder: Path, into: Path
) -> tuple[set[str], list[str]]:
    """Unpack the upload of each planned cell.

    Returns:
        Identifiers of the cells whose results are in ``into``, and a line for each refused upload.
    """
    came: set[str] = set()
    refused: list[str] = []
    uploads = {name: github.artifacts_of(run.id) for name, run in runs.items()}
    for cell in plan.cells:
        workflow = "gpu" if cell.environment else "ci"
        if workflow not in runs:
            continue
        artifact = upload_of(cell, runs[workflow], uploads[workflow])
        if artifact is not None:
            path = folder / f"{artifact.id}.zip"
            try:
                github.download(artifact, path, MAX_ARCHIVE_BYTES)
                unpack(path, into, [cell.lane])
                came.add(cell.id)
            except GateError as error:
                refused.append(f"{cell.lane}: {error.what}")
    return came, refused


def compare(
    into: Path, plan: JobPlan, came: Collection[str], baselines: Path
) -> tuple[dict[str, ExitCode], str]:
    """The verdict of each lane that brought something, over all that is due there; and the comment."""
    lanes = sorted({cell.lane for cell in plan.cells if cell.id in came})
    if not lanes:
        return {}, f"{MARKER}\n### \u26a0\ufe0f no results\n\nNo planned lane has results for this commit.\n"
    codes = {lane: diff(into, baselines, [lane], plan.not_due).outcome[1] for lane in lanes}
    verdict = diff(into, baselines, lanes, plan.not_due)
    review.show(verdict)
    return codes, render_markdown(verdict, max_bytes=MAX_BODY_BYTES)


def compose(body: str, states: Sequence[LaneState], refused: Sequence[str]) -> str:
    """The comment: its marker first, then how the commit stands lane by lane, then the results that came."""
    icons = {Standing.SUCCESS: "\u2705", Standing.PENDING: "\u23f3", Standing.FAILURE: "\u274c"}
    standing, line = overall(states)
    lines = [f"### {icons[standing]} {standing.value}: {prose(line)}", "", "| lane | |", "|---|---|"]
    lines += [
        f"| {prose(one.lane)} | {icons[one.standing]} {prose(one.text)} |" for one in dict.fromkeys(states)
    ]
    lines += ["", *(f"- refused: {prose(text[:300])}" for text in refused[:MAX_REFUSED])]
    results = body.removeprefix(f"{MARKER}\n").replace("### ", "#### Results that came: ", 1)
    return f"{MARKER}\n" + "\n".join(lines).rstrip() + "\n\n" + results


def run_link(github: GitHub) -> str:
    """The page of the run that reports."""
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    return f"{server}/{github.repository}/actions/runs/{os.environ.get('GITHUB_RUN_ID', '')}"
