"""A small plan, policy, run and baseline that pass; the tests damage one thing at a time."""

from __future__ import annotations

import errno
import itertools
import json
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ci.gate.compare import compare_suite
from ci.gate.plan import Plan, parse_plan
from ci.gate.policy import Policy, parse_policy
from ci.gate.rows import Row, SuiteVerdict
from ci.results.folder import JUNIT_FILE, RECORDS_FILE, FileProblem, RunInfo, SuiteFiles
from ci.results.jsonl import Baseline, Results, encode
from ci.results.junit import parse_junit
from ci.results.records import (
    AaSession,
    Acceptance,
    BaselineHead,
    BaselineRecord,
    Record,
    Remeasure,
    RunHead,
    Scalar,
    Subject,
)

NOW = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
STARTED = "2026-09-01T11:00:00Z"
WRITTEN = datetime(2026, 9, 1, 11, 1, tzinfo=UTC)
FIRST = Acceptance(date="2026-08-01", by="Ada", why="first run")

POLICY_TEXT = """\
schema = 1

[[rule]]
match = "*/*/red"
kind = "exact"
origin = "a break must be noticed"

[[rule]]
match = "*/*/violations"
kind = "exact"
origin = "no batch may overrun"
conditions = ["vllm"]

[[rule]]
match = "*/boot/bytes"
kind = "at-most"
origin = "memory budget"

[[rule]]
match = "*/boot/step_ms"
kind = "relative"
direction = "lower-is-better"
margin = 0.02
origin = "noise of ten boots"
conditions = ["driver"]
"""

PLAN_TEXT = """\
schema = 1

[[suite]]
name = "property"
lanes = ["cpu"]

[[suite.case]]
names = ["grid"]
metrics = ["violations"]

[[suite.case]]
names = ["boot"]
metrics = ["bytes", "step_ms"]

[[suite.control]]
names = ["control-seq-rows"]
metrics = ["violations"]
"""

JUNIT_TEXT = (
    '<testsuites><testsuite name="pytest"><testcase classname="t" name="a" time="0.1"/>'
    '<testcase classname="t" name="b" time="0.1"/></testsuite></testsuites>'
)


def policy(text: str = POLICY_TEXT) -> Policy:
    """Return the sample policy, or another."""
    return parse_policy(text, Path("baselines/policy.toml"))


def plan(text: str = PLAN_TEXT) -> Plan:
    """Return the sample plan, or another."""
    return parse_plan(text, Path("baselines/plan.toml"))


def full_disk(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let no file become whole after so many."""
    real, written = os.fsync, itertools.count(1)

    def fsync(descriptor: int) -> None:
        if next(written) > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


def records() -> dict[tuple[str, str], Record]:
    """Return what a good run measured."""
    return {
        (one.case, one.metric): one
        for one in (
            Record("grid", "violations", 0, "vectors"),
            Record("boot", "bytes", 1024, "bytes"),
            Record("boot", "step_ms", 10.0, "ms"),
            Record("control-seq-rows", "violations", 129498, "vectors", control=True),
            Record("control-seq-rows", "red", True, "bool", control=True),
        )
    }


def conditions() -> dict[str, Scalar]:
    """Return the conditions of both sides."""
    return {"lane": "cpu", "vllm": "0.27.1", "driver": "570.1", "torch": "2.13.0"}


@dataclass
class Sample:
    """One suite as it stands on disk; every part can be changed before it is compared."""

    plan_text: str = PLAN_TEXT
    policy_text: str = POLICY_TEXT
    records: dict[tuple[str, str], Record] = field(default_factory=records)
    accepted: dict[tuple[str, str], BaselineRecord] = field(default_factory=dict)
    run_conditions: dict[str, Scalar] = field(default_factory=conditions)
    baseline_conditions: dict[str, Scalar] = field(default_factory=conditions)
    junit_text: str = JUNIT_TEXT
    run: str = "r1"
    head_run: str = "r1"
    head_lane: str = "cpu"
    baseline_lane: str = "cpu"
    started: str = STARTED
    written: datetime = WRITTEN
    problems: tuple[FileProblem, ...] = ()
    aa: tuple[AaSession, ...] = ()
    remeasure: Remeasure | None = None
    has_results: bool = True
    has_baseline: bool = True
    has_junit: bool = True

    def __post_init__(self) -> None:
        """Accept what the good run measured."""
        for key, one in records().items():
            self.accepted[key] = BaselineRecord(one.case, one.metric, one.value, one.unit, FIRST, one.control)

    def measure(
        self, case: str, metric: str, value: Scalar, unit: str = "vectors", **more: str | bool
    ) -> None:
        """Let the run have measured something else."""
        self.records[case, metric] = Record(case, metric, value, unit, **more)  # type: ignore[arg-type]

    def accept(self, case: str, metric: str, value: Scalar, unit: str, printed: str | None = None) -> None:
        """Let something else have been accepted."""
        self.accepted[case, metric] = BaselineRecord(case, metric, value, unit, FIRST, printed=printed)

    def run_head(self) -> RunHead:
        """Return the head of the results."""
        subject = Subject("patched", "ab12")
        return RunHead(
            1, self.head_run, self.head_lane, "property", self.started, subject, self.run_conditions
        )

    def baseline_head(self) -> BaselineHead:
        """Return the head of the baseline."""
        return BaselineHead(
            1,
            self.baseline_lane,
            "property",
            Subject("patched", "00"),
            self.baseline_conditions,
            remeasure=self.remeasure,
        )

    def files(self) -> SuiteFiles:
        """Return what the readers would have returned."""
        return SuiteFiles(
            lane="cpu",
            suite="property",
            run=RunInfo(self.run, "cpu", "property", self.started),
            results=Results(self.run_head(), tuple(self.records.values())) if self.has_results else None,
            junit=parse_junit(Path(JUNIT_FILE), self.junit_text.encode()) if self.has_junit else None,
            baseline=Baseline(self.baseline_head(), tuple(self.accepted.values()))
            if self.has_baseline
            else None,
            problems=self.problems,
            written={RECORDS_FILE: self.written, JUNIT_FILE: self.written},
            aa=self.aa,
        )

    def verdict(self) -> SuiteVerdict:
        """Compare."""
        return compare_suite(plan(self.plan_text), policy(self.policy_text), self.files(), NOW)

    def only(self) -> Row:
        """Compare and return the single row that is not ``pass``."""
        (row,) = [row for row in self.verdict().rows if row.verdict.value != "pass"]
        return row

    def write(self, root: Path) -> Path:
        """Write baselines/ and out/runs/ below ``root``, the run as if it had just ended; return ``root``."""
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self.started = now
        run_dir, baselines = root / "out" / "runs" / "cpu" / "property", root / "baselines"
        run_dir.mkdir(parents=True, exist_ok=True)
        (baselines / "cpu").mkdir(parents=True, exist_ok=True)
        (baselines / "plan.toml").write_text(self.plan_text)
        (baselines / "policy.toml").write_text(self.policy_text)
        info = {"run": self.run, "lane": "cpu", "suite": "property", "started": now}
        (run_dir / "run.json").write_text(json.dumps(info))
        (run_dir / RECORDS_FILE).write_bytes(encode(self.run_head(), self.records.values()))
        (run_dir / JUNIT_FILE).write_text(self.junit_text)
        if self.has_baseline:
            data = encode(self.baseline_head(), self.accepted.values())
            (baselines / "cpu" / "property.jsonl").write_bytes(data)
        return root
