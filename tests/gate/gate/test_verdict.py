"""Several verdicts become one word and one exit code."""

from __future__ import annotations

import itertools

import pytest

from ci.errors import ExitCode
from ci.gate.verdict import Verdict, last_line, overall

CODES = {
    Verdict.PASS: 0,
    Verdict.IMPROVED: 0,
    Verdict.REGRESSED: 1,
    Verdict.INVALID: 2,
    Verdict.MISSING: 2,
    Verdict.NEW: 2,
    Verdict.INCONCLUSIVE: 2,
}


@pytest.mark.parametrize("verdict", Verdict)
def test_each_verdict_has_its_code(verdict: Verdict) -> None:
    """The closed set maps to the published exit codes."""
    assert overall([verdict], False) == (verdict, ExitCode(CODES[verdict]))


@pytest.mark.parametrize(("one", "other"), list(itertools.product(Verdict, Verdict)))
def test_regressed_goes_before_no_verdict_before_pass(one: Verdict, other: Verdict) -> None:
    """Of two verdicts the joined code is 1 if either is 1, else 2 if either is 2, else 0."""
    codes = {CODES[one], CODES[other]}
    expected = 1 if 1 in codes else max(codes)
    verdict, code = overall([one, other], False)
    assert int(code) == expected
    assert CODES[verdict] == expected


def test_failed_control_goes_before_everything() -> None:
    """A failed control is 3 even beside a regression."""
    assert overall([Verdict.REGRESSED, Verdict.PASS], True)[1] is ExitCode.CONTROL_FAILED
    assert overall([], True)[1] is ExitCode.CONTROL_FAILED
    assert overall([Verdict.PASS], True)[0] is Verdict.INVALID


def test_nothing_is_no_pass() -> None:
    """No verdict at all is invalid."""
    assert overall([], False) == (Verdict.INVALID, ExitCode.NO_VERDICT)


def test_last_line_agrees_with_the_code() -> None:
    """The last line names the word and the code."""
    assert last_line(Verdict.PASS, "3 checks", ExitCode.PASS) == "verdict: pass - 3 checks (exit 0)"
    assert last_line(Verdict.INVALID, "x", ExitCode.CONTROL_FAILED) == "verdict: control failed - x (exit 3)"
