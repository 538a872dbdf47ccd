"""Rows for the tests of a suite: a red test is never outvoted by good numbers."""

from __future__ import annotations

from ci.gate.rows import Cause, Row, Value
from ci.gate.verdict import Verdict
from ci.results.folder import JUNIT_FILE
from ci.results.junit import JUnitCase, JUnitReport
from ci.results.testcase import State

MAX_WHY_CHARS = 400
UNFIT = (
    "ci.lanes.gpu.GpuUnfitError: ",
    "ci.lanes.gpu.GpuBusyError: ",
    "ci.engine.profile.ProfileError: ",
    "ci.engine.session.KeptBootError: ",
    "ci.errors.IncomparableError: ",
    "ci.errors.UsageError: ",
)
"""How pytest begins what a test says that could not measure: machine, settings or boots are unfit."""


def rows_of_tests(lane: str, suite: str, junit: JUnitReport) -> tuple[Row, ...]:
    """Return a row for each red test, and one if the report itself cannot be trusted."""
    rows = [_row(lane, suite, case) for case in junit.cases if case.state.red]
    remedy = f"python -m ci run {suite} --lane {lane}"
    if not junit.complete:
        rows.append(_file_row(lane, suite, "is cut off or damaged: later tests are unread", remedy))
    if junit.lost:
        what = f"declares more tests than it holds, {junit.lost} are lost"
        rows.append(_file_row(lane, suite, what, remedy))
    if not junit.executed:
        skipped = junit.counts[State.SKIPPED]
        what = f"no test was executed ({skipped} skipped)"
        rows.append(_file_row(lane, suite, what, f"{remedy}; a suite never skips itself as a whole"))
    return tuple(rows)


def warnings_of_tests(junit: JUnitReport) -> tuple[str, ...]:
    """Return what a reader of the numbers should know about the report they stand beside."""
    warnings = [f"{JUNIT_FILE}: repaired: {repair}" for repair in junit.repairs]
    warnings += [f"{JUNIT_FILE}: {warning}" for warning in junit.warnings]
    warnings += [f"{JUNIT_FILE}: flaky: {case.identity}" for case in junit.cases if case.flaky]
    skipped = junit.counts[State.SKIPPED]
    if skipped:
        warnings.append(f"{JUNIT_FILE}: {skipped} of {len(junit.cases)} tests skipped")
    return tuple(warnings)


def _row(lane: str, suite: str, case: JUnitCase) -> Row:
    first = next((text for text in case.texts if text.message or text.text), None)
    why = (first.message or first.text).strip()[:MAX_WHY_CHARS] if first else ""
    worker = next((element.worker for element in case.elements if element.worker), None)
    if worker:
        why = f"worker {worker} died under the test: {why}"
    return Row(
        lane=lane,
        suite=suite,
        case=str(case.identity)[:MAX_WHY_CHARS],
        metric="test",
        verdict=Verdict.REGRESSED if case.failed and not _refused(case) else Verdict.INVALID,
        cause=Cause.TEST,
        baseline=Value(State.PASSED.value, ""),
        got=Value(case.state.value, ""),
        rule="every test passes",
        why=why or f"the test {case.state.value} without a message",
        remedy=f"read console.log in the run folder of {lane}/{suite}",
    )


def _refused(case: JUnitCase) -> bool:
    """Whether each thing that went wrong is a refusal, which says nothing about the patches."""
    said = [text.message or text.text for text in case.texts]
    return bool(said) and all(text.startswith(UNFIT) for text in said)


def _file_row(lane: str, suite: str, what: str, remedy: str) -> Row:
    return Row(
        lane, suite, "-", JUNIT_FILE, Verdict.INVALID, Cause.FILE, why=f"{JUNIT_FILE}: {what}", remedy=remedy
    )
