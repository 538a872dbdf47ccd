"""How rows join to suites, and suites to what a reader is told."""

from __future__ import annotations

import pytest

from ci.errors import ExitCode
from ci.gate.rows import Cause, GateVerdict, Row, SuiteVerdict
from ci.gate.verdict import Verdict


def row(verdict: Verdict = Verdict.PASS, case: str = "c", cause: Cause = Cause.COMPARED) -> Row:
    """Return a row about which nothing else is known."""
    return Row("cpu", "s", case, "m", verdict, cause)


def test_a_suite_of_which_only_rows_are_known_counts_nothing() -> None:
    """Neither cases nor controls are made up, and a row is a control only where somebody says so."""
    suite = SuiteVerdict("cpu", "s", (row(),))
    assert (suite.cases_planned, suite.cases_measured) == (0, 0)
    assert (suite.controls_planned, suite.controls_red, suite.tests_executed) == (0, 0, None)
    assert not row().control


@pytest.mark.parametrize(
    ("verdicts", "worst", "code"),
    [
        ((), Verdict.INVALID, ExitCode.NO_VERDICT),
        ((Verdict.PASS, Verdict.IMPROVED), Verdict.IMPROVED, ExitCode.PASS),
        ((Verdict.NEW, Verdict.REGRESSED), Verdict.REGRESSED, ExitCode.REGRESSED),
        ((Verdict.MISSING, Verdict.INVALID), Verdict.INVALID, ExitCode.NO_VERDICT),
    ],
)
def test_the_worst_row_decides(verdicts: tuple[Verdict, ...], worst: Verdict, code: ExitCode) -> None:
    """A suite without any row is invalid, and so is a gate without any suite."""
    suite = SuiteVerdict("cpu", "s", tuple(row(one) for one in verdicts))
    assert (suite.verdict, suite.exit_code) == (worst, code)
    assert GateVerdict((suite,)).outcome == (worst, code)


def test_a_failed_control_comes_first() -> None:
    """Before everything that is worse by name, in the order of rows and in the exit code."""
    green = row(Verdict.INVALID, "z", Cause.CONTROL_GREEN)
    suite = SuiteVerdict("cpu", "s", (row(Verdict.REGRESSED, "a"), green))
    gate = GateVerdict((suite,))
    assert gate.rows[0] is green
    assert (suite.exit_code, gate.outcome[1]) == (ExitCode.CONTROL_FAILED, ExitCode.CONTROL_FAILED)


@pytest.mark.parametrize(("count", "more"), [(1, ""), (2, " and 1 more"), (3, " and 2 more")])
def test_one_failed_control_is_named_and_the_others_are_counted(count: int, more: str) -> None:
    """A reader starts with the first."""
    greens = tuple(row(Verdict.INVALID, f"c{number}", Cause.CONTROL_GREEN) for number in range(count))
    detail = GateVerdict((SuiteVerdict("cpu", "s", greens),)).detail
    assert detail == f"control cpu/s c0{more} stayed green, so nothing in this run counts"


def test_cases_are_in_the_order_in_which_people_count() -> None:
    """seqs-8 stands before seqs-16, and a worse verdict before both."""
    names = ("seqs-16", "seqs-8")
    rows = (*(row(Verdict.NEW, name) for name in names), row(Verdict.MISSING, "zz"))
    shown = GateVerdict((SuiteVerdict("cpu", "s", rows),)).rows
    assert [one.case for one in shown] == ["zz", "seqs-8", "seqs-16"]


def test_rows_that_were_only_counted_count() -> None:
    """They weigh in the verdict, in the sums and in the words."""
    suite = SuiteVerdict("cpu", "s", (row(),), unlisted={Verdict.REGRESSED: 3})
    assert (suite.verdict, suite.exit_code) == (Verdict.REGRESSED, ExitCode.REGRESSED)
    assert GateVerdict((suite,)).detail == "3 regressed of 4 checks in 1 suite on cpu"
