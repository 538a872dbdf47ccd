"""One suite on one lane: planned against measured, measured against accepted.  Pure."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable
from datetime import datetime

from ci.gate.ab import AbResult, Design, Noise, decide, pool
from ci.gate.freshness import freshness_problems
from ci.gate.plan import RED, Plan, PlannedMetric
from ci.gate.policy import Direction, Kind, Policy, Rule
from ci.gate.rows import Cause, Row, SuiteVerdict, Value
from ci.gate.tests_seen import rows_of_tests, warnings_of_tests
from ci.gate.values import judge
from ci.gate.verdict import Verdict
from ci.results.aa import AA_FILE
from ci.results.folder import BASELINE_FILE, JUNIT_FILE, RECORDS_FILE, FileProblem, SuiteFiles
from ci.results.records import AaSession, BaselineHead, BaselineRecord, Record, RunHead

LANE = "lane"
"""The condition that matters to every metric."""
FLAG_MARK = "+"
"""Between an arm and the flag value under which it ran, where one arm is compared with itself."""


def compare_suite(plan: Plan, policy: Policy, files: SuiteFiles, now: datetime) -> SuiteVerdict:
    """Return the rows of one suite; every planned metric, result and baseline record ends in one.

    A results file that is stale or of another run counts as unusable, so that
    no number out of it can pass or fail.
    """
    stale = freshness_problems(files, now)
    files = _without(files, {problem.file for problem in stale})
    problems = (*files.problems, *stale)
    planned = plan.metrics(files.lane, files.suite)
    rows = [_file_row(files, problem, len(planned)) for problem in problems]
    if files.results is not None:
        compared = _Comparison(policy, files, planned).rows()
        unread_baseline = any(problem.file == BASELINE_FILE for problem in problems)
        # Behind a baseline that cannot be read, "never accepted" would be untrue; the rest still counts.
        rows += [row for row in compared if not (unread_baseline and row.cause is Cause.NO_BASELINE)]
    if files.junit is not None:
        rows += rows_of_tests(files.lane, files.suite, files.junit)
    return _summary(files, planned, tuple(sorted(rows, key=lambda row: row.order)))


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


class _Comparison:
    """The records of one suite, looked up from three sides."""

    def __init__(self, policy: Policy, files: SuiteFiles, planned: tuple[PlannedMetric, ...]) -> None:
        assert files.results is not None  # noqa: S101 - the caller has checked
        self.policy = policy
        self.lane, self.suite = files.lane, files.suite
        self.planned = planned
        self.aa = files.aa
        self.run_head: RunHead = files.results.head
        self.records = {(one.case, one.metric): one for one in files.results.records}
        self.head: BaselineHead | None = files.baseline.head if files.baseline else None
        self.accepted = (
            {(one.case, one.metric): one for one in files.baseline.records} if files.baseline else {}
        )

    def rows(self) -> Iterable[Row]:
        keys = {(one.case, one.metric) for one in self.planned}
        yield from self._head_rows()
        for one in self.planned:
            yield self._planned_row(one)
        for key, record in self.records.items():
            if key not in keys:
                yield self._unplanned_row(record)
        for key, accepted in self.accepted.items():
            if key not in keys and key not in self.records:
                yield self._orphan_row(accepted)

    def _head_rows(self) -> Iterable[Row]:
        if self.head is not None and (self.head.lane, self.head.suite) != (self.lane, self.suite):
            why = f"the baseline is of {self.head.lane}/{self.head.suite}"
            yield self._row(
                ("-", BASELINE_FILE), Verdict.INVALID, Cause.FILE, why=why, remedy="restore it from git"
            )

    def _planned_row(self, planned: PlannedMetric) -> Row:
        key = (planned.case, planned.metric)
        record = self.records.get(key)
        if record is None:
            why = "planned, but the run has no result for it"
            remedy = f"read console.log of the run, then: python -m ci run {self.suite} --lane {self.lane}"
            row = self._row(key, Verdict.MISSING, Cause.NO_RESULT, why=why, remedy=remedy)
            return dataclasses.replace(row, control=planned.control)
        control = self._control_row(record, planned.control)
        if control is None and record.control is not planned.control:
            says = ("plan", "run") if planned.control else ("run", "plan")
            why = f"a control according to the {says[0]}, but not according to the {says[1]}"
            return self._row(
                key, Verdict.INVALID, Cause.CONTROL_MARK, why=why, remedy="mend plan.toml or the suite"
            )
        return control or self._unread_row(record) or self._compared_row(record)

    def _control_row(self, record: Record, planned: bool = False) -> Row | None:
        """Return a row if ``record`` says that a deliberate break was not noticed."""
        if not (record.control or planned) or record.metric != RED or record.value is True:
            return None
        return self._row(
            (record.case, record.metric),
            Verdict.INVALID,
            Cause.CONTROL_GREEN,
            why=record.reason or "the deliberate break did not turn its check red",
            remedy="find out why the check cannot fail before trusting any result of the suite",
        )

    def _unread_row(self, record: Record) -> Row | None:
        if record.value is not None:
            return None
        return self._row(
            (record.case, record.metric),
            Verdict.INVALID,
            Cause.UNREAD,
            why=f"the value could not be read: {record.reason}",
            remedy="mend the reader or the run; an unread number is not zero",
        )

    def _compared_row(self, record: Record) -> Row:
        key = (record.case, record.metric)
        accepted, rule = self.accepted.get(key), self.policy.rule_for(self.suite, *key)
        if rule is None:
            why = f"no rule of {self.policy.path.name} matches {self.suite}/{record.case}/{record.metric}"
            remedy = "add a [[rule]] table for it, with the origin of its number"
            return self._row(key, Verdict.INVALID, Cause.NO_RULE, why=why, remedy=remedy)
        if rule.kind is Kind.AB and record.sessions:
            return self._ab_row(record, rule)
        if accepted is None or self.head is None:
            why = "measured, but never accepted"
            # For the whole suite, so that many new records share one footnote.
            return self._row(key, Verdict.NEW, Cause.NO_BASELINE, why=why, remedy=self._accept(None))
        if accepted.control is not record.control:
            why = "the baseline and the run differ in whether this is a control"
            return self._row(
                key, Verdict.INVALID, Cause.CONTROL_MARK, why=why, remedy=self._accept(record.case)
            )
        if accepted.unit != record.unit:
            why = f"the unit differs: accepted in {accepted.unit!r}, measured in {record.unit!r}"
            return self._row(key, Verdict.INVALID, Cause.UNIT, why=why, remedy=self._accept(record.case))
        different = differing_condition(rule, self.run_head, self.head)
        if different is not None:
            remedy = f"measure under the accepted conditions, or accept the new ones: {self._accept(None)}"
            return self._row(key, Verdict.INVALID, Cause.CONDITIONS, why=different, remedy=remedy)
        verdict, why = judge(rule, accepted.value, record.value, accepted.printed)
        cause = Cause.TYPE if verdict is Verdict.INVALID else Cause.COMPARED
        remedy = "" if verdict is Verdict.PASS else self._remedy(verdict, record.case)
        return self._row(key, verdict, cause, why=why, remedy=remedy)

    def _ab_row(self, record: Record, rule: Rule) -> Row:
        """Compare the arms of one record with each other: the accepted value plays no part in it."""
        key = (record.case, record.metric)
        subject = record.sessions[0].arms[1].partition(FLAG_MARK)[0]
        if subject != self.run_head.subject.arm:
            why = f"arm B is {subject}, but the run is about {self.run_head.subject.arm}"
            return self._row(
                key, Verdict.INVALID, Cause.ARM, why=why, remedy="measure the arms the other way round"
            )
        result = decide_record(rule, record, noise_for(rule, self.suite, record, self.run_head, self.aa))
        cause = Cause.TYPE if result.verdict is Verdict.INVALID else Cause.COMPARED
        # An improvement needs no acceptance: the next comparison is again one of arms with each other.
        settled = result.verdict in (Verdict.PASS, Verdict.IMPROVED)
        remedy = "" if settled else self._remedy(result.verdict, record.case)
        row = self._row(key, result.verdict, cause, why=result.why, remedy=remedy)
        return dataclasses.replace(row, ab=result)

    def _unplanned_row(self, record: Record) -> Row:
        control = self._control_row(record)
        if control is not None:
            return control
        key = (record.case, record.metric)
        remedy = f"add it to plan.toml under suite {self.suite}, or stop measuring it"
        return self._row(
            key, Verdict.NEW, Cause.NOT_PLANNED, why="measured, but not in the plan", remedy=remedy
        )

    def _orphan_row(self, accepted: BaselineRecord) -> Row:
        key = (accepted.case, accepted.metric)
        why = "accepted, but neither planned nor measured any more"
        remedy = f"plan it again, or accept without it: {self._accept(None)}"
        return self._row(key, Verdict.MISSING, Cause.NOT_PLANNED, why=why, remedy=remedy)

    def _remedy(self, verdict: Verdict, case: str) -> str:
        if verdict is Verdict.IMPROVED:
            return self._accept(case)
        if verdict is Verdict.INCONCLUSIVE:
            return f"measure a fresh session: python -m ci run {self.suite} --lane {self.lane}"
        return f"mend the patch; if the new value is right: {self._accept(case)}"

    def _accept(self, case: str | None) -> str:
        chosen = "" if case is None else f" --case {shlex.quote(case)}"
        return f"python -m ci accept --lane {self.lane} --suite {self.suite}{chosen} --why TEXT"

    def _row(self, key: tuple[str, str], verdict: Verdict, cause: Cause, *, why: str, remedy: str) -> Row:
        record, accepted = self.records.get(key), self.accepted.get(key)
        rule = self.policy.rule_for(self.suite, *key) if cause is not Cause.FILE else None
        return Row(
            lane=self.lane,
            suite=self.suite,
            case=key[0],
            metric=key[1],
            verdict=verdict,
            cause=cause,
            baseline=Value(accepted.value, accepted.unit, accepted.printed) if accepted else None,
            got=Value(record.value, record.unit, record.printed) if record else None,
            rule=str(rule) if rule else "",
            why=why,
            remedy=remedy,
            control=record.control if record else accepted.control if accepted else False,
            accepted=accepted.accepted if accepted else None,
            source=accepted.source if accepted else None,
        )


def differing_condition(rule: Rule, run: RunHead, accepted: BaselineHead) -> str | None:
    """Return what differs among the conditions that matter to ``rule``, or None.

    A condition that either side could not read matches nothing, not even another unread one.
    """
    if run.lane != accepted.lane:
        return f"lane differs: accepted on {accepted.lane}, measured on {run.lane}"
    for name in rule.conditions:
        before, after = accepted.conditions.get(name), run.conditions.get(name)
        if before is None or after is None:
            where = "the baseline" if before is None else "the run"
            return f"condition {name} matters here, but {where} does not know it"
        if type(before) is not type(after) or before != after:
            return f"condition {name} differs: accepted under {before!r}, measured under {after!r}"
    return None


def noise_for(rule: Rule, suite: str, record: Record, run: RunHead, aa: Iterable[AaSession]) -> Noise:
    """Pool the A/A sessions of the same metric under the conditions that matter to ``rule``."""
    return pool(
        one.session
        for one in aa
        if (one.suite, one.case, one.metric, one.unit) == (suite, record.case, record.metric, record.unit)
        and all(
            one.conditions.get(name) is not None and one.conditions.get(name) == run.conditions.get(name)
            for name in rule.conditions
        )
    )


def decide_record(rule: Rule, record: Record, noise: Noise) -> AbResult:
    """Return the verdict on the sessions of ``record`` under an A/B rule."""
    assert rule.margin is not None and rule.pairs is not None  # noqa: S101, PT018 - the policy has checked
    design = Design(rule.margin, rule.pairs)
    return decide(record.sessions, design, noise, rule.direction is Direction.HIGHER)


def _summary(files: SuiteFiles, planned: tuple[PlannedMetric, ...], rows: tuple[Row, ...]) -> SuiteVerdict:
    records = files.results.records if files.results else ()
    measured = {(one.case, one.control) for one in records}
    cases = {one.case for one in planned if not one.control}
    controls = {one.case for one in planned if one.control}
    red = {one.case for one in records if one.control and one.metric == RED and one.value is True}
    return SuiteVerdict(
        lane=files.lane,
        suite=files.suite,
        rows=rows,
        cases_planned=len(cases),
        cases_measured=len({case for case, control in measured if not control} & cases),
        controls_planned=len(controls),
        controls_red=len(controls & red),
        tests_executed=files.junit.executed if files.junit else None,
        subject=files.results.head.subject.arm if files.results else "",
        warnings=warnings_of_tests(files.junit) if files.junit else (),
    )
