"""Damaged files end in a declared error or a red verdict; green only where an independent reader agrees.

FORKPROOF_FUZZ sets how many inputs there are in all; they are shared out
evenly among the three readers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ci.errors import GateError
from ci.gate.compare import compare_suite
from ci.gate.verdict import Verdict
from ci.results.jsonl import encode, read_baseline, read_results
from ci.results.junit import parse_junit
from tests.fuzz.damage import Step, damage, steps
from tests.gate.samples import NOW, Sample, plan, policy

READERS = 3
INPUTS = int(os.environ.get("FORKPROOF_FUZZ", "300"))
FUZZ = settings(
    max_examples=-(-INPUTS // READERS),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
PLAN, POLICY = plan(), policy()
PYTEST = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" tests="2"><testcase classname="t" name="a" time="0.1"/>
<testcase classname="t" name="b" time="0.2"><failure message="boom">trace</failure></testcase>
</testsuite></testsuites>"""
NESTED = b"""<testsuite xmlns="urn:x"><testsuite name="in"><testcase name="a" time="0,1">
<properties><property name="p" value="1"/></properties></testcase>
<testcase name="b"><error message="x"/></testcase></testsuite></testsuite>"""
WIDE = """<?xml version="1.0" encoding="utf-16"?><testsuite><testcase name="a"><skipped/></testcase>
<testcase name="b"><failure/></testcase></testsuite>""".encode("utf-16")
ILLEGAL = b"""<testsuite><testcase name="a" status="notrun"/><testcase name="b">
<system-out>\x1b[0m</system-out><failure>f</failure></testcase></testsuite>"""
SEEDS = (PYTEST, NESTED, WIDE, ILLEGAL)
"""Each holds a test that is not green."""


def truly_green(data: bytes) -> bool:
    """Tell whether a strict parser that is not ours accepts the document and finds nothing red in it."""
    try:
        root = ElementTree.fromstring(data)  # noqa: S314 - only to compare with
    except (ElementTree.ParseError, ValueError, LookupError):
        return False
    names = {str(element.tag).rpartition("}")[2] for element in root.iter()}
    return not names & {"failure", "error"}


def mentions_red(data: bytes) -> bool:
    """Tell whether the tags of a red test are still in the bytes, whatever their encoding."""
    plain = data.replace(b"\0", b"")
    return b"<failure" in plain or b"<error" in plain


@FUZZ
@given(st.sampled_from(SEEDS), steps())
def test_junit(seed: bytes, many: list[Step]) -> None:
    """A report with a red test stays red, unless the damage took the red test itself out of it."""
    data = damage(seed, many)
    with contextlib.suppress(GateError):
        report = parse_junit(Path("junit.xml"), data)
        if not report.red:
            assert truly_green(data) or not mentions_red(data), data


def good() -> Sample:
    """The run that passes."""
    return Sample()


def regressed() -> Sample:
    """The run whose violations are not what was accepted."""
    sample = Sample()
    sample.measure("grid", "violations", 1)
    return sample


RUN = encode(regressed().run_head(), regressed().records.values())
BASELINE = encode(good().baseline_head(), good().accepted.values())
EXACT = (("grid", "violations"), ("control-seq-rows", "violations"), ("control-seq-rows", "red"))
WANTED = {(one.case, one.metric): one.value for one in good().records.values()}


def content(data: bytes) -> dict[tuple[str, str], object] | None:
    """Return what an independent reader finds in the record lines, None if any line is no JSON."""
    found = {}
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if not line.strip():
            continue
        try:
            one = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if isinstance(one, dict) and one.get("kind") == "record":
            found[one.get("case"), one.get("metric")] = one.get("value")
    return found


@pytest.fixture(scope="module")
def folder() -> Path:
    """Return a folder for the file that is read."""
    return Path(tempfile.mkdtemp(prefix="forkproof-fuzz-"))


@FUZZ
@given(many=steps())
def test_results(folder: Path, many: list[Step]) -> None:
    """A regressed run never passes, unless the damage happens to write exactly the accepted values."""
    data = damage(RUN, many)
    path = folder / "records.jsonl"
    path.write_bytes(data)
    with contextlib.suppress(GateError):
        files = dataclasses.replace(regressed().files(), results=read_results(path))
        verdict = compare_suite(PLAN, POLICY, files, NOW)
        if verdict.verdict in (Verdict.PASS, Verdict.IMPROVED):
            assert content(data) == WANTED, data


@FUZZ
@given(many=steps())
def test_baseline(folder: Path, many: list[Step]) -> None:
    """A damaged baseline passes a good run only if it still holds every accepted value."""
    data = damage(BASELINE, many)
    path = folder / "baseline.jsonl"
    path.write_bytes(data)
    with contextlib.suppress(GateError):
        files = dataclasses.replace(good().files(), baseline=read_baseline(path))
        verdict = compare_suite(PLAN, POLICY, files, NOW)
        if verdict.verdict is Verdict.PASS:
            kept = content(data)
            assert kept is not None
            # Bounds may move either way and still hold; what is exact may not.
            for key in (
                ("grid", "violations"),
                ("control-seq-rows", "violations"),
                ("control-seq-rows", "red"),
            ):
                assert kept.get(key) == WANTED[key], data
