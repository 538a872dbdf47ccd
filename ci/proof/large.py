"""Large checkouts and test reports, written line by line, to measure what the gate takes for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from ci.proof.checkout import ACCEPTED, CONDITIONS, JUNIT, LANE
from ci.results.records import SCHEMA_VERSION, BaselineHead, BaselineRecord, Record, RunHead, Subject

SUITE = "large"
METRICS = 50
"""Per case, so that the plan of a million values stays a file that a person could read."""
_POLICY = """\
schema = 1

[[rule]]
match = "*/*/red"
kind = "exact"
origin = "a break must be noticed"

[[rule]]
match = "large/*/metric-*0"
kind = "relative"
direction = "lower-is-better"
margin = 0.02
origin = "made up"
conditions = ["driver"]

[[rule]]
match = "large/*/metric-*5"
kind = "at-most"
origin = "made up"

[[rule]]
match = "large/*/metric-*"
kind = "exact"
origin = "made up"
conditions = ["vllm"]
"""


def write_large_checkout(root: Path, records: int) -> None:
    """Write a checkout below ``root`` whose suite measured at least ``records`` values, one of them worse."""
    cases = max(1, records // METRICS)
    names = ", ".join(f'"case-{number}"' for number in range(cases))
    metrics = ", ".join(f'"metric-{number}"' for number in range(METRICS))
    baselines, run = root / "baselines", root / "runs" / LANE / SUITE
    (baselines / LANE).mkdir(parents=True)
    run.mkdir(parents=True)
    (baselines / "policy.toml").write_text(_POLICY, encoding="utf-8")
    (baselines / "plan.toml").write_text(
        f'schema = 1\n[[suite]]\nname = "{SUITE}"\nlanes = ["{LANE}"]\n[[suite.case]]\nnames = [{names}]\n'
        f'metrics = [{metrics}]\n[[suite.control]]\nnames = ["control"]\n',
        encoding="utf-8",
    )
    started = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    (run / "run.json").write_text(
        json.dumps({"run": "r1", "lane": LANE, "suite": SUITE, "started": started}), encoding="utf-8"
    )
    (run / "junit.xml").write_text(JUNIT, encoding="utf-8")
    subject = Subject("patched", "ab12")
    with (run / "records.jsonl").open("wb") as stream:
        head = RunHead(SCHEMA_VERSION, "r1", LANE, SUITE, started, subject, CONDITIONS)
        _write(stream, head, _values(cases, worse=True))
    with (baselines / LANE / f"{SUITE}.jsonl").open("wb") as stream:
        accepted = (
            BaselineRecord(one.case, one.metric, one.value, one.unit, ACCEPTED, one.control)
            for one in _values(cases, worse=False)
        )
        _write(stream, BaselineHead(SCHEMA_VERSION, LANE, SUITE, subject, CONDITIONS), accepted)


def _write(
    stream: BinaryIO, head: RunHead | BaselineHead, records: Iterator[Record] | Iterator[BaselineRecord]
) -> None:
    encode = msgspec.json.Encoder().encode
    stream.write(encode(head) + b"\n")
    for record in records:
        stream.write(encode(record) + b"\n")


def _values(cases: int, worse: bool) -> Iterator[Record]:
    for case in range(cases):
        for metric in range(METRICS):
            value = case * 0.37 + metric + 1
            last = worse and (case, metric) == (cases - 1, METRICS - 1)
            yield Record(f"case-{case}", f"metric-{metric}", value * 2 if last else value, "ms")
    yield Record("control", "red", True, "bool", control=True)


def write_large_junit(path: Path, size: int) -> None:
    """Write a report of at least ``size`` bytes whose last test fails."""
    with path.open("w", encoding="utf-8") as stream:
        stream.write('<?xml version="1.0" encoding="utf-8"?>\n<testsuites><testsuite name="pytest">\n')
        number, written = 0, 0
        while written < size:
            output = f"<system-out>{'line of output ' * 20}{number}</system-out>"
            written += stream.write(
                f'<testcase classname="tests.module_{number % 100}" name="test_case[{number}]" time="0.012">'
                f"{output}</testcase>\n"
            )
            number += 1
        stream.write(
            '<testcase classname="t" name="last"><failure message="boom">trace</failure></testcase>\n'
        )
        stream.write("</testsuite></testsuites>\n")
