"""``python -m ci matrix``: the jobs of an event, and why each other lane has none."""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from ci.errors import ExitCode, UsageError
from ci.lanes.event import KINDS, MAX_EVENT_BYTES, Event, parse_event
from ci.lanes.matrix import MATRIX_FILE, JobPlan, Where, parse_matrix, plan_jobs
from ci.lanes.outputs import write_outputs
from ci.results.files import read_limited, write_report

EPILOG = """\
examples:
  python -m ci matrix --event push                             every lane a push gets
  python -m ci matrix --event pull_request --payload event.json
  python -m ci matrix --event workflow_dispatch --lane rtx3090 --suite oracle
  python -m ci matrix --github --where self-hosted             inside a workflow: reads the event
                                                               and writes the step's outputs

Outputs of the step: cells (a JSON list for strategy.matrix.include), any (true or false).
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "matrix",
        help="print the jobs of an event, and why each other lane has none",
        description=f"The jobs of an event, from {MATRIX_FILE.name}.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--event", choices=sorted(KINDS), help="GitHub's name of the event")
    parser.add_argument("--payload", type=Path, metavar="FILE", help="the event's JSON")
    parser.add_argument("--github", action="store_true", help="take event and outputs from the environment")
    parser.add_argument(
        "--where", choices=[where.value for where in Where], help="the cells of one workflow only"
    )
    parser.add_argument("--lane", action="append", default=[], help="a manual run's lane; may be repeated")
    parser.add_argument("--suite", action="append", default=[], help="its suite; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the whole plan to FILE")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Print the plan, and hand it to the workflow."""
    event = with_changes(read_event(args))
    lanes, suites = split_words(args.lane), split_words(args.suite)
    plan = plan_jobs(parse_matrix(MATRIX_FILE.read_text(encoding="utf-8")), event, lanes, suites)
    cells = plan.of(Where(args.where)) if args.where else plan.cells
    show(plan, Console(highlight=False, markup=False, soft_wrap=True))
    data = msgspec.json.encode(cells).decode()
    if args.json is not None:
        write_report(args.json, msgspec.json.format(encode_plan(plan, event), indent=1) + b"\n")
    if args.github:
        write_outputs(_variable_path("GITHUB_OUTPUT"), {"cells": data, "any": str(bool(cells)).lower()})
    where = f" {args.where}" if args.where else ""
    print(f"jobs{where}: {len(cells)}; lanes left out: {len(plan.left_out)}")
    return ExitCode.PASS


def split_words(given: Sequence[str]) -> list[str]:
    """Names given one by one, or several in one text as a form's field has them; empty ones do not count."""
    return [word for text in given for word in text.replace(",", " ").split()]


def read_event(args: argparse.Namespace) -> Event:
    """The event that the options, or GitHub's variables, name."""
    if args.github:
        name = os.environ.get("GITHUB_EVENT_NAME", "")
        return parse_event(name, read_limited(_variable_path("GITHUB_EVENT_PATH"), MAX_EVENT_BYTES))
    if args.event is None:
        raise UsageError("which event?", remedy="--event push, or --github inside a workflow")
    return parse_event(args.event, read_limited(args.payload, MAX_EVENT_BYTES) if args.payload else b"{}")


def with_changes(event: Event) -> Event:
    """The event with the paths that its change touches, if git can tell."""
    if event.base is None or event.head is None:
        return event
    command = ["git", "diff", "--name-only", "--no-renames", "-z", f"{event.base}...{event.head}", "--"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        print(f"note: git cannot compare {event.base[:12]} with {event.head[:12]}: every lane is due")
        return event
    paths = tuple(path for path in done.stdout.decode("utf-8", "replace").split("\0") if path)
    return dataclasses.replace(event, changed=paths)


def encode_plan(plan: JobPlan, event: Event) -> bytes:
    """The plan as JSON: what the report later holds against what ran."""
    left = [{"lane": out.lane, "why": out.why.value, "reason": out.reason} for out in plan.left_out]
    return msgspec.json.encode({"event": event.kind.value, "cells": plan.cells, "left_out": left})


def show(plan: JobPlan, console: Console) -> None:
    """One line per cell, and one per lane without any."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("lane", "runs on", "suites", "arm", "limit", "left out because"):
        table.add_column(column, overflow="fold")
    for cell in plan.cells:
        arm = cell.arm or "the whole series"
        table.add_row(cell.lane, " ".join(cell.runs_on), cell.suites, arm, f"{cell.minutes} min", "")
    for out in plan.left_out:
        table.add_row(out.lane, "", "", "", "", f"{out.why.value}: {out.reason}")
    if not console.is_terminal:
        console.width = 200
    console.print(table)


def _variable_path(name: str) -> Path:
    value = os.environ.get(name)
    if not value:
        raise UsageError(f"{name} is not set", cause="--github is for a step of a workflow")
    return Path(value)
