"""JUnit for others: what it says agrees with the verdict, read by our own reader and by another."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import junitparser
import pytest

from ci.errors import ExitCode
from ci.gate.rows import GateVerdict
from ci.gate.verdict import Verdict
from ci.report.junit_out import render_junit
from ci.results.junit import parse_junit
from tests.gate.report.golden_file import check_golden
from tests.gate.report.pages import rich
from tests.gate.report.states import STATES


def _state(name: str) -> GateVerdict:
    return rich() if name == "rich" else STATES[name]()


@pytest.mark.parametrize("name", [*STATES, "rich"])
def test_golden(name: str) -> None:
    """Each state gives its golden file."""
    check_golden(f"{name}.junit.xml", render_junit(_state(name)).decode())


@pytest.mark.parametrize("name", [*STATES, "rich"])
def test_readers_agree_with_the_verdict(name: str) -> None:
    """The file is red exactly when the exit code is not 0, and its totals are true."""
    verdict = _state(name)
    data = render_junit(verdict)
    report = parse_junit(Path("out.xml"), data)
    assert report.red is (verdict.outcome[1] is not ExitCode.PASS)
    assert (report.complete, report.repairs) == (True, ())
    for suite in junitparser.JUnitXml.fromstring(data):
        states = [type(result).__name__ for case in suite for result in case.result]
        assert suite.tests == len(list(suite))
        assert (suite.failures, suite.errors) == (states.count("Failure"), states.count("Error"))


def test_counted_rows_are_not_lost() -> None:
    """Rows that were only counted make a case of their own, red if one of them is."""
    suite = STATES["pass"]().suites[0]
    for verdict, red in ((Verdict.PASS, False), (Verdict.REGRESSED, True)):
        more = dataclasses.replace(suite, unlisted={verdict: 7})
        report = parse_junit(Path("out.xml"), render_junit(GateVerdict((more,))))
        assert report.red is red
        assert len(report.cases) == len(suite.rows) + 1
