"""A small checkout that passes: plan, policy, baselines and runs of two suites, by our own writers."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from ci.errors import GateError
from ci.results.aa import write_aa
from ci.results.jsonl import write_baseline, write_results
from ci.results.records import (
    SCHEMA_VERSION,
    AaSession,
    AbSession,
    Acceptance,
    BaselineHead,
    BaselineRecord,
    Record,
    RunHead,
    Scalar,
    Subject,
)

LANE, SUITE, SECOND = "cpu", "sample", "second"
ORDER = "ABBA" * 4
ACCEPTED = Acceptance(date="2026-09-01", by="prove-red", why="sample")
CONDITIONS: dict[str, Scalar] = {"lane": LANE, "vllm": "0.27.1", "driver": "570.1", "torch": "2.13.0"}

POLICY = """\
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
match = "*/published/*"
kind = "exact"
origin = "printed in the publication"

[[rule]]
match = "*/boot/bytes"
kind = "at-most"
origin = "memory budget"

[[rule]]
match = "*/boot/tokens"
kind = "at-least"
limit = 1000
origin = "one full context"

[[rule]]
match = "*/boot/step_ms"
kind = "relative"
direction = "lower-is-better"
margin = 0.02
origin = "noise of ten boots"
conditions = ["driver"]

[[rule]]
match = "*/boot/share"
kind = "relative"
direction = "neither"
margin = 0.02
origin = "noise of ten boots"

[[rule]]
match = "*/speed/*"
kind = "ab"
direction = "lower-is-better"
margin = 0.005
pairs = 8
origin = "half of the published spread"
conditions = ["driver"]

[[rule]]
match = "*/boot/note"
kind = "info"
origin = "shown, never judged"
"""

_SUITE_PLAN = """
[[suite]]
name = "{name}"
lanes = ["cpu"]

[[suite.case]]
names = ["grid"]
metrics = ["violations"]

[[suite.control]]
names = ["control-rows"]
"""
PLAN = (
    "schema = 1\n"
    + _SUITE_PLAN.format(name=SUITE)
    + """
[[suite.case]]
names = ["boot"]
metrics = ["bytes", "tokens", "step_ms", "share", "note"]

[[suite.case]]
names = ["published"]
metrics = ["mib", "holds"]

[[suite.case]]
names = ["speed"]
metrics = ["step_ms"]
"""
    + _SUITE_PLAN.format(name=SECOND)
)

JUNIT = """\
<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" tests="2" failures="0" errors="0" skipped="0">
<testcase classname="t" name="grid" time="0.1"/>
<testcase classname="t" name="boot" time="0.1"/>
</testsuite></testsuites>
"""


class UnchangedError(GateError):
    """A damage that changed nothing, so that whatever follows proves nothing."""


def boots(
    slower: float, run: str, arms: tuple[str, str] = ("stock", "patched"), noise: float = 0.0005
) -> AbSession:
    """Return a session of eight pairs in which arm B takes longer by the fraction ``slower``."""
    values = tuple(
        round(10 * (1 + (slower if arm == "B" else 0) + noise * (-1) ** (index // 4 + index)), 6)
        for index, arm in enumerate(ORDER)
    )
    return AbSession(run, arms, ORDER, values)


def sample_records() -> tuple[Record, ...]:
    """Return what the first suite measured."""
    return (
        Record("grid", "violations", 0, "vectors"),
        Record("boot", "bytes", 1024, "bytes"),
        Record("boot", "tokens", 2000, "tokens"),
        Record("boot", "step_ms", 10.0, "ms"),
        Record("boot", "share", 0.5, "1"),
        Record("boot", "note", "quiet", "1"),
        Record("published", "mib", 225.76, "MiB"),
        Record("published", "holds", True, "bool"),
        Record("speed", "step_ms", 10.0, "ms", sessions=(boots(0.0, "s1"),)),
        Record("control-rows", "red", True, "bool", control=True),
    )


def second_records() -> tuple[Record, ...]:
    """Return what the second suite measured."""
    return (
        Record("grid", "violations", 0, "vectors"),
        Record("control-rows", "red", True, "bool", control=True),
    )


@dataclass(frozen=True)
class Checkout:
    """A checkout below ``root``; every change says so if it changes nothing."""

    root: Path

    @property
    def runs(self) -> Path:
        """Return the folder of all runs."""
        return self.root / "runs"

    @property
    def baselines(self) -> Path:
        """Return the baselines folder."""
        return self.root / "baselines"

    def run_file(self, name: str, suite: str = SUITE) -> Path:
        """Return a file of a run folder."""
        return self.runs / LANE / suite / name

    @property
    def records(self) -> Path:
        """Return the results of the first suite."""
        return self.run_file("records.jsonl")

    @property
    def junit(self) -> Path:
        """Return the test report of the first suite."""
        return self.run_file("junit.xml")

    @property
    def baseline(self) -> Path:
        """Return the baseline of the first suite."""
        return self.baselines / LANE / f"{SUITE}.jsonl"

    def write(self) -> Checkout:
        """Write everything, as if both suites had just run; return self."""
        self.baselines.mkdir(parents=True)
        (self.baselines / "plan.toml").write_text(PLAN, encoding="utf-8")
        (self.baselines / "policy.toml").write_text(POLICY, encoding="utf-8")
        for suite, records in ((SUITE, sample_records()), (SECOND, second_records())):
            self._write_suite(suite, records)
        noise = boots(0.0, "aa1", ("patched", "patched"))
        write_aa(
            self.baselines / LANE / "aa.jsonl",
            [AaSession(SCHEMA_VERSION, SUITE, "speed", "step_ms", "ms", noise, CONDITIONS, ACCEPTED)],
        )
        return self

    def _write_suite(self, suite: str, records: Iterable[Record]) -> None:
        started = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        folder = self.runs / LANE / suite
        folder.mkdir(parents=True)
        info = {"run": f"run-{suite}", "lane": LANE, "suite": suite, "started": started}
        (folder / "run.json").write_text(json.dumps(info), encoding="utf-8")
        subject = Subject("patched", "ab12")
        head = RunHead(SCHEMA_VERSION, f"run-{suite}", LANE, suite, started, subject, CONDITIONS)
        write_results(folder / "records.jsonl", head, records)
        (folder / "junit.xml").write_text(JUNIT, encoding="utf-8")
        accepted = [
            BaselineRecord(
                **msgspec.structs.asdict(one) | {"printed": "225.76" if one.metric == "mib" else None},
                accepted=ACCEPTED,
            )
            for one in records
        ]
        baseline_head = BaselineHead(SCHEMA_VERSION, LANE, suite, subject, CONDITIONS)
        write_baseline(self.baselines / LANE / f"{suite}.jsonl", baseline_head, accepted)

    def edit(self, path: Path, old: str, new: str) -> None:
        """Replace ``old`` by ``new`` in a text file, once.

        Raises:
            UnchangedError: ``old`` is not there, so that the damage would prove nothing.
        """
        before = path.read_bytes()
        after = before.replace(old.encode(), new.encode("utf-8", "surrogateescape"), 1)
        if before == after:
            raise UnchangedError(f"{path.name}: {old!r} is not there to be damaged")
        path.write_bytes(after)

    def drop_line(self, path: Path, words: str) -> None:
        """Remove the single line that contains ``words``."""
        lines = path.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if words.encode() not in line]
        if len(kept) != len(lines) - 1:
            raise UnchangedError(f"{path.name}: {words!r} is not on exactly one line")
        path.write_bytes(b"".join(kept))

    def add_line(self, path: Path, line: str) -> None:
        """Append a line."""
        path.write_bytes(path.read_bytes() + line.encode() + b"\n")

    def cut(self, path: Path, count: int) -> None:
        """Cut the last ``count`` bytes."""
        path.write_bytes(path.read_bytes()[:-count])

    def measure(self, record: Record) -> None:
        """Let the first suite have measured something else for one case and metric."""
        words = f'"case":"{record.case}","metric":"{record.metric}",'
        self.drop_line(self.records, words)
        self.add_line(self.records, msgspec.json.encode(record).decode())

    def age(self, path: Path) -> None:
        """Let a file be an hour older than its run."""
        then = (datetime.now(UTC) - timedelta(hours=1)).timestamp()
        os.utime(path, (then, then))

    def copy_run(self, source: str, target: Path) -> None:
        """Copy the run folder of a suite to another place."""
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.runs / LANE / source, target)
