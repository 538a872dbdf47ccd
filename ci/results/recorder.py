"""The pytest plugin that turns what suites measure into ``records.jsonl``.

Loaded with ``-p ci.results.recorder``.  Tests say what they measured through
the ``measure`` fixture; the records travel on the test reports, so that they
reach the controller of pytest-xdist from any worker.  The controller writes
the file once, whole, when the session has ended in an orderly way.  A pytest
that dies leaves no file, and a missing file is never green.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from ci.errors import GateError
from ci.results.files import read_limited, write_atomic
from ci.results.jsonl import write_results
from ci.results.reached import Reached
from ci.results.records import AbSession, Record, RunHead, Scalar
from ci.results.subtests import SubtestCounter

RUN_DIR_VARIABLE = "FORKPROOF_RUN_DIR"
"""The run folder; without it records are checked and then dropped (a suite run by hand)."""
HEAD_FILE = "head.json"
"""The head of the records, written into the run folder by whoever starts the suite."""
RECORDS_FILE = "records.jsonl"
PROPERTY = "forkproof-record"
"""The reserved name under which a record travels on a test report."""
HEAD_LIMIT_BYTES = 4 * 1024 * 1024


class DuplicateRecordError(GateError):
    """Two records of one run carry the same case and metric."""


class UnusableRecordError(GateError):
    """A value that no record can hold."""


class Measure:
    """What the ``measure`` fixture gives a test: each call is one record."""

    def __init__(self, node: pytest.Item, seen: dict[tuple[str, str], str]) -> None:
        self._node = node
        self._seen = seen

    def __call__(
        self,
        case: str,
        metric: str,
        value: Scalar,
        *,
        unit: str,
        reason: str | None = None,
        control: bool = False,
        sessions: tuple[AbSession, ...] = (),
    ) -> None:
        """Record one metric of one case; a None value needs the reason why it could not be read."""
        record = Record(case, metric, value, unit, control=control, reason=reason, sessions=sessions)
        check_record(record)
        key = (case, metric)
        if key in self._seen:
            raise duplicate(key, self._seen[key], self._node.nodeid)
        self._seen[key] = self._node.nodeid
        self._node.user_properties.append((PROPERTY, msgspec.json.encode(record).decode()))

    def control(
        self,
        case: str,
        *,
        red: bool,
        metric: str | None = None,
        value: Scalar = None,
        unit: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Record a deliberate break: whether the check turned red, and the number that it then showed."""
        if metric is not None:
            self(case, metric, value, unit=unit or "", reason=reason, control=True)
        self(case, "red", red, unit="bool", control=True)


def check_record(record: Record) -> None:
    """Refuse what a results file cannot hold.

    Raises:
        UnusableRecordError: no scalar, NaN, an infinity, over 64 bits, an empty name, or None without reason.
    """
    name = f"record {record.case!r} {record.metric!r}"
    value: object = record.value
    if type(value) not in (bool, int, float, str, type(None)):
        raise UnusableRecordError(
            f"{name}: a {type(value).__name__} is not a value",
            remedy="convert it to a plain int, float, str or bool where it is measured",
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise UnusableRecordError(
            f"{name}: {value} is not a number", remedy="record None with the reason, or fail the test"
        )
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise UnusableRecordError(f"{name}: {value} does not fit into 64 bits")
    if value is None and not record.reason:
        raise UnusableRecordError(f"{name}: the value is None without a reason", remedy="pass reason=...")
    if not (record.case and record.metric and record.unit):
        raise UnusableRecordError(f"{name}: case, metric and unit must not be empty")


def duplicate(key: tuple[str, str], first: str, second: str) -> DuplicateRecordError:
    """The error for a case and metric recorded twice."""
    return DuplicateRecordError(
        f"case {key[0]!r} metric {key[1]!r} is recorded twice: by {first} and by {second}",
        remedy="give one of them another case or metric name",
    )


class Collector:
    """Gathers the records of all workers and writes them at the end."""

    def __init__(self, run_dir: Path | None) -> None:
        self.run_dir = run_dir
        self.records: dict[tuple[str, str], Record] = {}
        self.origin: dict[tuple[str, str], str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the records off a report; first, so that they do not appear in the JUnit file as well."""
        payloads = [value for name, value in report.user_properties if name == PROPERTY]
        report.user_properties = [item for item in report.user_properties if item[0] != PROPERTY]
        # Every later report repeats the properties of the earlier ones; the teardown's has them all.
        if report.when == "teardown":
            for payload in payloads:
                self._take(msgspec.json.decode(str(payload), type=Record), report.nodeid)

    def _take(self, record: Record, nodeid: str) -> None:
        key = (record.case, record.metric)
        if key in self.records:
            pytest.exit(
                str(duplicate(key, self.origin[key], nodeid)), returncode=int(pytest.ExitCode.INTERNAL_ERROR)
            )
        self.records[key] = record
        self.origin[key] = nodeid

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the file, unless the session was interrupted, broke, or executed nothing."""
        orderly = exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        if self.run_dir is not None and orderly:
            write_records(self.run_dir, list(self.records.values()))


def read_head(run_dir: Path) -> RunHead:
    """Return the head that the records of a run folder will carry."""
    return msgspec.json.decode(read_limited(run_dir / HEAD_FILE, HEAD_LIMIT_BYTES), type=RunHead)


def add_conditions(conditions: dict[str, Scalar]) -> None:
    """Add what only the suite knows of its conditions to the head of this run, if there is a run.

    It holds for every record of the run, those written before included.
    """
    named = os.environ.get(RUN_DIR_VARIABLE)
    if named:
        head = read_head(Path(named))
        changed = msgspec.structs.replace(head, conditions=head.conditions | conditions)
        write_atomic(
            Path(named) / HEAD_FILE, msgspec.json.format(msgspec.json.encode(changed), indent=2) + b"\n"
        )


def write_records(run_dir: Path, records: list[Record]) -> None:
    """Write ``records.jsonl`` below the head that the run folder holds."""
    write_results(run_dir / RECORDS_FILE, read_head(run_dir), records)


_SEEN = pytest.StashKey[dict[tuple[str, str], str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Gather records in the controller only; workers send theirs along with the reports."""
    config.stash[_SEEN] = {}
    if not hasattr(config, "workerinput"):
        run_dir = os.environ.get(RUN_DIR_VARIABLE)
        config.pluginmanager.register(Collector(Path(run_dir) if run_dir else None), "forkproof-collector")
        config.pluginmanager.register(SubtestCounter(), "forkproof-subtests")


@pytest.fixture
def measure(request: pytest.FixtureRequest) -> Measure:
    """Record what this test measured."""
    return Measure(request.node, request.config.stash[_SEEN])


class Reach:
    """What the ``reached`` fixture gives a test: wraps functions of the arm until the test ends."""

    def __init__(self) -> None:
        self.counters: list[Reached] = []

    def __call__(self, owner: ModuleType | type, name: str) -> Reached:
        """Count the calls of ``owner.name``, which must be defined in the arm and be called by the end."""
        self.counters.append(Reached(owner, name))
        return self.counters[-1]


@pytest.fixture
def reached() -> Iterator[Reach]:
    """Wrap production functions of the arm; a test that never calls one of them is an error."""
    reach = Reach()
    yield reach
    for counter in reversed(reach.counters):
        counter.restore()
    for counter in reach.counters:
        counter.require()
