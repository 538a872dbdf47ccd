"""One suite on one lane: planned against measured, measured against accepted.  Pure."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from datetime import datetime

from ci.gate.cell import Cells
from ci.gate.freshness import freshness_problems
from ci.gate.merge import Together, in_order, merge, planned_in_order
from ci.gate.plan import RED, Plan, PlannedMetric
from ci.gate.policy import Policy
from ci.gate.rows import Cause, Row, SuiteVerdict
from ci.gate.tests_seen import rows_of_tests, warnings_of_tests
from ci.gate.verdict import Verdict
from ci.results.aa import AA_FILE
from ci.results.folder import BASELINE_FILE, JUNIT_FILE, RECORDS_FILE, FileProblem, SuiteFiles
from ci.results.records import Remeasure


def compare_suite(
    plan: Plan, policy: Policy, files: SuiteFiles, now: datetime, keep: int | None = None
) -> SuiteVerdict:
    """Return the rows of one suite; every planned metric, result and baseline record ends in one.

    A results file that is stale or of another run counts as unusable, so that
    no number out of it can pass or fail.

    Args:
        plan: what must be measured.
        policy: how it is compared.
        files: what the run and the baseline left.
        now: the time of the comparison, UTC.
        keep: how many rows of each verdict are kept; the others are counted. None keeps all.
    """
    stale = freshness_problems(files, now)
    files = _without(files, {problem.file for problem in stale})
    problems = (*files.problems, *stale)
    planned = plan.metrics(files.lane, files.suite)
    tally = _Tally(keep)
    for problem in problems:
        tally.add(_file_row(files, problem, len(planned)))
    if files.baseline is not None and files.baseline.head.remeasure is not None:
        tally.add(_marked_row(files, files.baseline.head.remeasure))
    if files.results is not None:
        unread_baseline = any(problem.file == BASELINE_FILE for problem in problems)
        _compare_cells(policy, files, planned, tally, unread_baseline)
    if files.junit is not None:
        for row in rows_of_tests(files.lane, files.suite, files.junit):
            tally.add(row)
    return _summary(files, planned, tally)


class _Tally:
    """Collects rows, and counts what a report says about all of them."""

    def __init__(self, keep: int | None) -> None:
        self.keep = keep
        self.rows: list[Row] = []
        self.kept: Counter[Verdict] = Counter()
        self.unlisted: Counter[Verdict] = Counter()
        self.measured: set[str] = set()
        self.red: set[str] = set()

    def full(self, verdict: Verdict) -> bool:
        """Tell whether rows of ``verdict`` are only counted from now on."""
        return self.keep is not None and self.kept[verdict] >= self.keep

    def add(self, row: Row) -> None:
        """Keep or count a row; a control that stayed green is always kept."""
        if self.full(row.verdict) and not row.control_failed:
            self.unlisted[row.verdict] += 1
        else:
            self.kept[row.verdict] += 1
            self.rows.append(row)

    def see(self, cell: Together) -> None:
        """Note which cases were measured and which controls turned red."""
        record = cell.record
        if record is None:
            return
        if not record.control:
            self.measured.add(cell.case)
        elif record.metric == RED and record.value is True:
            self.red.add(cell.case)


def _compare_cells(
    policy: Policy,
    files: SuiteFiles,
    planned: tuple[PlannedMetric, ...],
    tally: _Tally,
    unread_baseline: bool,
) -> None:
    assert files.results is not None  # noqa: S101 - the caller has checked
    base = files.baseline
    if base is not None and (base.head.lane, base.head.suite) != (files.lane, files.suite):
        why = f"the baseline is of {base.head.lane}/{base.head.suite}"
        tally.add(
            Row(
                files.lane,
                files.suite,
                "-",
                BASELINE_FILE,
                Verdict.INVALID,
                Cause.FILE,
                why=why,
                remedy="restore it from git",
            )
        )
    cells = Cells(policy, files.suite, files.results.head, base.head if base else None, files.aa)
    accepted = in_order(base.records) if base else ()
    passes_left, unlisted = sys.maxsize if tally.keep is None else tally.keep, 0
    for cell in merge(planned_in_order(planned), in_order(files.results.records), accepted):
        tally.see(cell)
        row = cells.row(cell)
        if row is None:
            if passes_left > 0:
                passes_left -= 1
                tally.add(cells.passed(cell))
            else:
                unlisted += 1
        # Behind a baseline that cannot be read, "never accepted" would be untrue; the rest still counts.
        elif not (unread_baseline and row.cause is Cause.NO_BASELINE):
            tally.add(row)
    if unlisted:
        tally.unlisted[Verdict.PASS] += unlisted


def _without(files: SuiteFiles, stale: set[str]) -> SuiteFiles:
    wrong_run = bool(stale - {RECORDS_FILE, JUNIT_FILE})
    return dataclasses.replace(
        files,
        results=None if wrong_run or RECORDS_FILE in stale or files.run is None else files.results,
        junit=None if wrong_run or JUNIT_FILE in stale or files.run is None else files.junit,
    )


def _file_row(files: SuiteFiles, problem: FileProblem, planned: int) -> Row:
    unread = problem.file not in (JUNIT_FILE, BASELINE_FILE, AA_FILE)
    return Row(
        lane=files.lane,
        suite=files.suite,
        case="-",
        metric=problem.file,
        verdict=Verdict.MISSING if problem.missing else Verdict.INVALID,
        cause=Cause.FILE,
        why=f"{problem.what}; none of {planned} planned metrics is known" if unread else problem.what,
        remedy=problem.remedy or "",
    )


def _marked_row(files: SuiteFiles, mark: Remeasure) -> Row:
    """Keep the suite from passing by rules to which the version of vLLM does not matter."""
    lane, suite = files.lane, files.suite
    return Row(
        lane=lane,
        suite=suite,
        case="-",
        metric=BASELINE_FILE,
        verdict=Verdict.INVALID,
        cause=Cause.REMEASURE,
        why=f"marked for measuring anew on vllm {mark.vllm}: {mark.why}",
        remedy=f"python -m ci run {suite} --lane {lane}, then: "
        f"python -m ci accept --lane {lane} --suite {suite} --why TEXT",
    )


def _summary(files: SuiteFiles, planned: tuple[PlannedMetric, ...], tally: _Tally) -> SuiteVerdict:
    cases = {one.case for one in planned if not one.control}
    controls = {one.case for one in planned if one.control}
    return SuiteVerdict(
        lane=files.lane,
        suite=files.suite,
        rows=tuple(sorted(tally.rows, key=lambda row: row.order)),
        cases_planned=len(cases),
        cases_measured=len(tally.measured & cases),
        controls_planned=len(controls),
        controls_red=len(controls & tally.red),
        tests_executed=files.junit.executed if files.junit else None,
        subject=files.results.head.subject.arm if files.results else "",
        warnings=(*_transcribed(files), *(warnings_of_tests(files.junit) if files.junit else ())),
        unlisted=tally.unlisted,
    )


def _transcribed(files: SuiteFiles) -> tuple[str, ...]:
    """Return a warning if baselines were copied from a publication; a large file is of our own making."""
    accepted = files.baseline.records if files.baseline else ()
    copied = sum(one.source is not None for one in accepted) if isinstance(accepted, tuple) else 0
    if not copied:
        return ()
    return (f"{copied} of {len(accepted)} baselines are transcribed and were never measured on this lane",)
