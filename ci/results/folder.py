"""One run folder and the baseline beside it, read as far as they can be read.

A file that cannot be used does not stop the reading: it becomes a problem that
the comparison turns into a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from ci.errors import GateError
from ci.results.aa import AA_FILE, read_aa
from ci.results.files import FileMissingError, FileUnreadableError, read_limited
from ci.results.jsonl import Baseline, Results, is_slug, parse_utc
from ci.results.junit import JUnitReport, read_junit
from ci.results.records import AaSession
from ci.results.stored import load_baseline, load_results

RUN_FILE = "run.json"
RECORDS_FILE = "records.jsonl"
JUNIT_FILE = "junit.xml"
BASELINE_FILE = "baseline"
"""How a problem names the baseline, whose path differs by suite."""
MAX_RUN_FILE_BYTES = 1 << 20

T = TypeVar("T")


class RunFileError(GateError):
    """``run.json`` does not say which run this is."""


class RunInfo(msgspec.Struct, frozen=True):
    """What ``run.json`` says; it is written before the first test starts."""

    run: str
    lane: str
    suite: str
    started: str
    """RFC 3339, UTC."""


@dataclass(frozen=True)
class FileProblem:
    """A file of a run or baseline that cannot be used."""

    file: str
    missing: bool
    """True if it is not there, False if it is there and unusable."""
    what: str
    remedy: str | None


@dataclass(frozen=True)
class SuiteFiles:
    """Everything that one suite on one lane left behind; None where a file is absent or a problem."""

    lane: str
    suite: str
    run: RunInfo | None = None
    results: Results | None = None
    junit: JUnitReport | None = None
    baseline: Baseline | None = None
    problems: tuple[FileProblem, ...] = ()
    written: Mapping[str, datetime] | None = None
    """When each file of the run was last written."""
    aa: tuple[AaSession, ...] = ()
    """The A/A sessions of the lane, of every suite."""


def read_suite_files(run_dir: Path, baseline_path: Path, lane: str, suite: str) -> SuiteFiles:
    """Read what the run and the baseline of ``suite`` on ``lane`` say; never raises for their content."""
    problems: list[FileProblem] = []
    remedy = f"python -m ci run {suite} --lane {lane}"
    if not run_dir.is_dir():
        problems.append(FileProblem("run folder", True, f"{run_dir}: the suite has not run", remedy))
        run, results, junit = None, None, None
    else:
        run = _try(problems, RUN_FILE, remedy, lambda: read_run(_no_link(run_dir / RUN_FILE)))
        results = _try(problems, RECORDS_FILE, remedy, lambda: load_results(_no_link(run_dir / RECORDS_FILE)))
        junit = _try(problems, JUNIT_FILE, remedy, lambda: read_junit(_no_link(run_dir / JUNIT_FILE)))
    baseline = _read_baseline(problems, baseline_path)
    aa_path = baseline_path.parent / AA_FILE
    aa = _try(problems, AA_FILE, _restore(aa_path), lambda: read_aa(aa_path)) or ()
    return SuiteFiles(lane, suite, run, results, junit, baseline, tuple(problems), _times(run_dir), aa)


def read_run(path: Path) -> RunInfo:
    """Read ``run.json``.

    Raises:
        RunFileError: it is no JSON object with the run's identifier, lane, suite and start.
    """
    try:
        info = msgspec.json.decode(read_limited(path, MAX_RUN_FILE_BYTES), type=RunInfo, strict=True)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise RunFileError(f"{path}: {error}") from error
    if not info.run or not is_slug(info.lane) or not is_slug(info.suite) or parse_utc(info.started) is None:
        raise RunFileError(f"{path}: run, lane, suite or started is not usable")
    return info


def _read_baseline(problems: list[FileProblem], path: Path) -> Baseline | None:
    """Return the baseline; its absence is no problem here, for then every result is new."""
    if not path.exists() and not path.is_symlink():
        return None
    return _try(problems, BASELINE_FILE, _restore(path), lambda: load_baseline(path))


def _restore(path: Path) -> str:
    return f"restore it: git checkout -- {path.name} in {path.parent.name}/"


def _try(problems: list[FileProblem], name: str, remedy: str, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except GateError as error:
        what = f"{error.what}; {error.cause}" if error.cause else error.what
        problems.append(FileProblem(name, isinstance(error, FileMissingError), what, remedy))
        return None


def _no_link(path: Path) -> Path:
    """Return ``path`` unless it is a link: a run may come from a stranger and point anywhere."""
    if path.is_symlink():
        raise FileUnreadableError(f"{path}: is a link, not a file of this run")
    return path


def _times(run_dir: Path) -> dict[str, datetime]:
    times = {}
    for name in (RECORDS_FILE, JUNIT_FILE):
        path = run_dir / name
        if path.is_file():
            times[name] = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return times
