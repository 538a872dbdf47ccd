"""Stands for ``nox`` in a rehearsal: the gate's own sessions are real, suites give their accepted results."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ci.lanes.run import suites as known_suites
from ci.rehearsal.world import HANGS, REGRESSED, REPOSITORY, SILENT, World
from ci.results.files import write_atomic
from ci.results.jsonl import read_baseline, write_results
from ci.results.records import SCHEMA_VERSION, BaselineRecord, Record, RunHead

REAL = {"matrix", "needs", "collect"}
JUNIT = b"""\
<testsuites><testsuite name="pytest" tests="1" failures="0" errors="0" skipped="0">
<testcase classname="rehearsal" name="one" time="0.1"/></testsuite></testsuites>
"""
HANG_S = 120.0


def main(arguments: Sequence[str]) -> int:
    """Do what the sessions would."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    sessions, rest = arguments[1:at], list(arguments[at + 1 :])
    if sessions[0] in REAL:
        from ci.cli import main as cli  # late: the stand-in for suites needs none of it

        os.environ["GITHUB_REPOSITORY"] = REPOSITORY
        return min(cli([sessions[0], *rest]), 1)
    if not set(sessions) <= set(known_suites()):
        print(f"rehearsed: {' '.join(sessions)}")
        return 0
    return run_suites(sessions, rest[rest.index("--lane") + 1])


def run_suites(suites: Sequence[str], lane: str) -> int:
    """Write results as the lane's part in the rehearsal has it."""
    world = World.here()
    does = world.lane_does(lane)
    if does == SILENT:
        return 0
    if does == HANGS:
        world.hanging.touch()
        time.sleep(HANG_S)
        return 1
    for suite in suites:
        write_suite(Path("out/runs"), lane, suite, worse=does == REGRESSED)
    return 1 if does == REGRESSED else 0


def write_suite(runs: Path, lane: str, suite: str, *, worse: bool) -> None:
    """The accepted results as if they had just been measured, the first number worse if asked for."""
    accepted = read_baseline(Path("baselines", lane, f"{suite}.jsonl"))
    started = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    folder, run = runs / lane / suite, f"rehearsal-{lane}-{suite}"
    info = {"run": run, "lane": lane, "suite": suite, "started": started}
    write_atomic(folder / "run.json", msgspec.json.encode(info))
    head = RunHead(SCHEMA_VERSION, run, lane, suite, started, accepted.head.subject, accepted.head.conditions)
    records = [measured(record) for record in accepted.records]
    if worse:
        at = next(i for i, one in enumerate(records) if one.value is True and not one.control)
        records[at] = msgspec.structs.replace(records[at], value=False)
    write_results(folder / "records.jsonl", head, records)
    write_atomic(folder / "junit.xml", JUNIT)


def measured(record: BaselineRecord) -> Record:
    """An accepted value as a measured one."""
    return Record(
        record.case, record.metric, record.value, record.unit, record.control, record.printed, record.reason
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
