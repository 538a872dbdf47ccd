"""Red tests become rows; what only casts doubt becomes a warning."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from ci.errors import GateError
from ci.gate.tests_seen import UNFIT, rows_of_tests, warnings_of_tests
from ci.gate.verdict import Verdict
from ci.results.junit import JUnitReport, parse_junit


def _report(body: str, rest: str = '<testcase name="ok" time="0.1"/></testsuite>') -> JUnitReport:
    return parse_junit(
        Path("junit.xml"), f'<testsuite><testcase name="a" time="0.1">{body}</testcase>{rest}'.encode()
    )


CASES = {
    "failed": ('<failure message="no"/>', Verdict.REGRESSED, "no"),
    "xpassed": ('<failure message="[XPASS(strict)] known"/>', Verdict.REGRESSED, "[XPASS(strict)] known"),
    "error": ('<error message="fixture"/>', Verdict.INVALID, "fixture"),
    "failure-and-error": ('<failure message="no"/><error/>', Verdict.REGRESSED, "no"),
    "refused": (
        '<failure message="ci.lanes.gpu.GpuUnfitError: the GPU is not fit"/>',
        Verdict.INVALID,
        "ci.lanes.gpu.GpuUnfitError",
    ),
    "another-session": (
        '<failure message="ci.engine.session.KeptBootError: boot 7 is of another session"/>',
        Verdict.INVALID,
        "ci.engine.session.KeptBootError",
    ),
    "refused-in-text": (
        "<failure>ci.errors.UsageError: for another environment</failure>",
        Verdict.INVALID,
        "ci.errors.UsageError",
    ),
    "refused-and-failed": (
        '<failure message="ci.engine.profile.ProfileError: not set"/><failure message="no"/>',
        Verdict.REGRESSED,
        "ci.engine.profile.ProfileError",
    ),
    "speaks-of-refusal": (
        '<failure message="assert &apos;ci.lanes.gpu.GpuBusyError: x&apos;"/>',
        Verdict.REGRESSED,
        "assert",
    ),
    "silent": ("<failure/>", Verdict.REGRESSED, "the test failed without a message"),
    "crashed": (
        "<error>worker 'gw1' crashed while running</error>",
        Verdict.INVALID,
        "worker gw1 died under the test",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_red_tests(name: str) -> None:
    """A refuted claim is a regression; an error or a crash is no verdict; each says why."""
    body, verdict, why = CASES[name]
    (row,) = rows_of_tests("cpu", "property", _report(body))
    assert row.verdict is verdict
    assert row.why.startswith(why)


def test_a_failure_without_any_text_is_no_refusal() -> None:
    """Some writers say only the state."""
    report = parse_junit(
        Path("junit.xml"), b'<testsuite><testcase name="a" status="failed" time="0.1"/></testsuite>'
    )
    assert [row.verdict for row in rows_of_tests("cpu", "property", report)] == [Verdict.REGRESSED]


def test_a_long_failure_is_cut() -> None:
    """A page of assertion is for the log; a row has room for a paragraph."""
    (row,) = rows_of_tests("cpu", "property", _report(f'<failure message="{"x" * 5000}"/>'))
    assert (row.why, row.control) == ("x" * 400, False)


@pytest.mark.parametrize("body", ["", "<skipped/>", '<skipped type="pytest.xfail"/>'])
def test_tests_that_are_not_red(body: str) -> None:
    """Passed, skipped and expected failures give no row."""
    assert rows_of_tests("cpu", "property", _report(body)) == ()


def test_incomplete_report_is_invalid() -> None:
    """A report that breaks off is no proof that the rest passed."""
    (row,) = rows_of_tests("cpu", "property", _report("", "<testcase name='b'"))
    assert row.verdict is Verdict.INVALID
    assert "cut off" in row.why


def test_tests_taken_out_of_the_report_are_invalid() -> None:
    """A well-formed report with fewer tests than pytest counted is no proof that those passed."""
    whole = '<testsuite name="pytest" tests="2"><testcase name="a"/><testcase name="b"/></testsuite>'
    assert rows_of_tests("cpu", "property", parse_junit(Path("j.xml"), whole.encode())) == ()
    part = whole.replace('<testcase name="b"/>', "")
    (row,) = rows_of_tests("cpu", "property", parse_junit(Path("j.xml"), part.encode()))
    assert row.verdict is Verdict.INVALID
    assert "declares more tests than it holds, 1 are lost" in row.why


def test_nothing_executed_is_invalid() -> None:
    """A suite of skipped tests only is no pass."""
    (row,) = rows_of_tests("cpu", "property", _report("<skipped/>", "</testsuite>"))
    assert row.verdict is Verdict.INVALID
    assert "no test was executed (1 skipped)" in row.why


def test_warnings() -> None:
    """Repairs, flaky and skipped tests are named."""
    report = _report("<flakyFailure/>\x1b", '<testcase name="s" time="0"><skipped/></testcase></testsuite>')
    text = "\n".join(warnings_of_tests(report))
    assert "repaired: 1 characters" in text
    assert "flaky: a" in text
    assert "1 of 2 tests skipped" in text


def test_refusals_are_errors_that_exist() -> None:
    """An error that moved or was renamed would count as a regression again."""
    for name in UNFIT:
        module, _, error = name.removesuffix(": ").rpartition(".")
        assert issubclass(getattr(importlib.import_module(module), error), GateError)
