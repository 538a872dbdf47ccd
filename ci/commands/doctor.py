"""``python -m ci doctor``: is this machine fit for its lane, and what mends it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from ci.commands import review
from ci.errors import ExitCode, UsageError
from ci.lanes.conditions import GpuQueryError, detect_lane
from ci.lanes.doctor import Finding, State, examine, worst
from ci.lanes.facts import read_facts
from ci.lanes.matrix import MATRIX_FILE, Lane, Matrix, parse_matrix
from ci.lanes.run import ROOT, SITE_VARIABLE
from ci.stack.cache import cache_root

EPILOG = """\
examples:
  python -m ci doctor                     this machine, for the lane of its GPU
  python -m ci doctor --lane rtx3090      for that lane, whatever the machine is
  python -m ci doctor --json              for programs

ok: as it should be.  warn: a run can start, its reader should know.  fail: mend it first.
docs/runners.md leads from an empty machine to a green doctor.
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "doctor",
        help="check whether this machine is fit for its lane",
        description="Check driver, CUDA, torch, memory, processes, disk, clocks, runner and model files.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--lane", help="the lane to be fit for (default: this machine's)")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Read, judge, show."""
    matrix = parse_matrix(MATRIX_FILE.read_text(encoding="utf-8"))
    lane = choose_lane(matrix, args.lane)
    facts = read_facts(lane.gpu is not None, cache_root(), review.default_runs(), stack_python())
    findings = examine(facts, lane)
    state = worst(findings)
    code = ExitCode.NO_VERDICT if state is State.FAIL else ExitCode.PASS
    if args.json:
        print(encode(lane, findings, code))
        return code
    show(findings, Console(highlight=False, markup=False, soft_wrap=True))
    print(last_line(lane, findings, code))
    return code


def stack_python(env: Mapping[str, str] = os.environ) -> Path:
    """The interpreter that suites run in: a bundle's host lends this one, else ``nox -s build`` made it."""
    if env.get(SITE_VARIABLE):
        return Path(sys.executable)
    return ROOT / ".nox" / "build" / "bin" / "python"


def choose_lane(matrix: Matrix, asked: str | None) -> Lane:
    """The lane asked for, else that of this machine.

    Raises:
        UsageError: the matrix has no such lane.
    """
    try:
        name = asked or detect_lane()
    except GpuQueryError:
        name = "cpu"
    lane = next((lane for lane in matrix.lane if lane.name == name), None)
    if lane is None:
        raise UsageError(
            f"no lane {name!r} in {MATRIX_FILE.name}",
            cause=None if asked else "this machine's GPU has no lane of its own yet",
            remedy=f"--lane with one of: {', '.join(lane.name for lane in matrix.lane)}",
        )
    return lane


def encode(lane: Lane, findings: Sequence[Finding], code: ExitCode) -> str:
    """The findings for programs."""
    data = {"lane": lane.name, "exit_code": int(code), "findings": findings}
    return msgspec.json.format(msgspec.json.encode(data), indent=1).decode()


def show(findings: Sequence[Finding], console: Console) -> None:
    """One line per check, with the remedy under what is not ok."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("state", "check", "found"):
        table.add_column(column, overflow="fold", no_wrap=column != "found")
    for finding in findings:
        text = finding.text if finding.state is State.OK else f"{finding.text}\n  remedy: {finding.remedy}"
        table.add_row(finding.state.value, finding.check, text)
    if not console.is_terminal:
        console.width = 160
    console.print(table)


def last_line(lane: Lane, findings: Sequence[Finding], code: ExitCode) -> str:
    """The verdict in words."""
    counts = {state: sum(finding.state is state for finding in findings) for state in State}
    words = ", ".join(f"{count} {state.value}" for state, count in counts.items())
    verdict = "pass" if code is ExitCode.PASS else "no verdict"
    fit = "fit" if code is ExitCode.PASS else "not fit"
    return f"verdict: {verdict} - this machine is {fit} for {lane.name}: {words} (exit {int(code)})"
