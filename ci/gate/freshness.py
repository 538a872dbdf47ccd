"""Whether the files of a run folder come from the run that the folder says."""

from __future__ import annotations

from datetime import datetime, timedelta

from ci.results.folder import JUNIT_FILE, RECORDS_FILE, RUN_FILE, FileProblem, SuiteFiles
from ci.results.jsonl import parse_utc

CLOCK_SLACK = timedelta(seconds=2)
"""Coarse file times may lie a little before the start that the same clock gave."""
FUTURE_SLACK = timedelta(minutes=5)
"""Machines whose clocks are set by the network agree better than this."""


def freshness_problems(files: SuiteFiles, now: datetime) -> tuple[FileProblem, ...]:
    """Return a problem for each file that is stale or belongs to another run, lane or suite."""
    remedy = f"python -m ci run {files.suite} --lane {files.lane}"
    if files.run is None:
        return ()
    problems: list[FileProblem] = []

    def add(file: str, what: str) -> None:
        problems.append(FileProblem(file, False, f"{file}: {what}", remedy))

    run, started = files.run, parse_utc(files.run.started)
    if (run.lane, run.suite) != (files.lane, files.suite):
        add(RUN_FILE, f"is of {run.lane}/{run.suite}, in the folder of {files.lane}/{files.suite}")
    if started is None or started > now + FUTURE_SLACK:
        add(RUN_FILE, f"the run starts in the future: {run.started}")
        return tuple(problems)
    if files.results is not None:
        head = files.results.head
        if head.run != run.run:
            add(RECORDS_FILE, f"stale: of run {head.run!r}, the folder is of run {run.run!r}")
        elif (head.lane, head.suite) != (files.lane, files.suite):
            add(RECORDS_FILE, f"is of {head.lane}/{head.suite}, in the folder of {files.lane}/{files.suite}")
    for file in (RECORDS_FILE, JUNIT_FILE):
        written = (files.written or {}).get(file)
        if written is not None and written < started - CLOCK_SLACK:
            add(file, f"stale: written {written:%Y-%m-%dT%H:%M:%SZ}, the run started {run.started}")
    return tuple(problems)
