"""One case and metric, planned, measured and accepted or not: the row that says what follows.  Pure."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable

from ci.gate.ab import AbResult, Design, Noise, decide, pool
from ci.gate.merge import Together
from ci.gate.plan import RED
from ci.gate.policy import Direction, Kind, Policy, Rule
from ci.gate.rows import Cause, Row, Value
from ci.gate.values import band, judge
from ci.gate.verdict import Verdict
from ci.results.records import AaSession, BaselineHead, Record, RunHead

FLAG_MARK = "+"
"""Between an arm and the flag value under which it ran, where one arm is compared with itself."""


class Cells:
    """Judges the cells of one suite; rules and conditions are looked at once, not for each of them."""

    def __init__(
        self,
        policy: Policy,
        suite: str,
        run: RunHead,
        baseline: BaselineHead | None,
        aa: tuple[AaSession, ...] = (),
    ) -> None:
        self.policy, self.suite, self.lane = policy.for_suite(suite), suite, run.lane
        self.run, self.baseline, self.aa = run, baseline, aa
        self._different = {
            rule.number: differing_condition(rule, run, baseline) if baseline else None
            for rule in self.policy.rules
        }

    def row(self, cell: Together) -> Row | None:
        """Return the row of a cell; None if it passes and `passed` may stand for it."""
        if cell.planned is not None:
            return self._planned(cell)
        return self._unplanned(cell) if cell.record is not None else self._orphan(cell)

    def passed(self, cell: Together) -> Row:
        """Return the row of a cell for which `row` gave None."""
        return self._row(cell, Verdict.PASS, Cause.COMPARED, "", "")

    def _planned(self, cell: Together) -> Row | None:
        assert cell.planned is not None  # noqa: S101 - the caller has checked
        record = cell.record
        if record is None:
            why = "planned, but the run has no result for it"
            remedy = f"read console.log of the run, then: python -m ci run {self.suite} --lane {self.lane}"
            row = self._row(cell, Verdict.MISSING, Cause.NO_RESULT, why, remedy)
            return dataclasses.replace(row, control=cell.planned.control)
        if record.control or cell.planned.control:
            control = self._control(cell, record)
            if control is not None:
                return control
        if record.control is not cell.planned.control:
            says = ("plan", "run") if cell.planned.control else ("run", "plan")
            why = f"a control according to the {says[0]}, but not according to the {says[1]}"
            return self._row(cell, Verdict.INVALID, Cause.CONTROL_MARK, why, "mend plan.toml or the suite")
        if record.value is None:
            why = f"the value could not be read: {record.reason}"
            remedy = "mend the reader or the run; an unread number is not zero"
            return self._row(cell, Verdict.INVALID, Cause.UNREAD, why, remedy)
        return self._compared(cell, record)

    def _control(self, cell: Together, record: Record) -> Row | None:
        """Return a row if a deliberate break was not noticed."""
        if cell.metric != RED or record.value is True:
            return None
        why = record.reason or "the deliberate break did not turn its check red"
        remedy = "find out why the check cannot fail before trusting any result of the suite"
        return self._row(cell, Verdict.INVALID, Cause.CONTROL_GREEN, why, remedy)

    def _compared(self, cell: Together, record: Record) -> Row | None:
        accepted, rule = cell.accepted, self.policy.rule_for(self.suite, cell.case, cell.metric)
        if rule is None:
            why = f"no rule of {self.policy.path.name} matches {self.suite}/{cell.case}/{cell.metric}"
            remedy = "add a [[rule]] table for it, with the origin of its number"
            return self._row(cell, Verdict.INVALID, Cause.NO_RULE, why, remedy)
        if rule.kind is Kind.AB and record.sessions:
            return self._ab(cell, record, rule)
        if accepted is None or self.baseline is None:
            if rule.limit is not None:
                alone, why = judge(rule, record.value, record.value, record.printed)
                if alone is not Verdict.PASS:  # and no baseline could make it green
                    cause = Cause.TYPE if alone is Verdict.INVALID else Cause.COMPARED
                    return self._row(cell, alone, cause, why, self._remedy(alone, cell.case, rule))
            # For the whole suite, so that many new records share one footnote.
            why = "measured, but never accepted"
            return self._row(cell, Verdict.NEW, Cause.NO_BASELINE, why, self._accept(None))
        if accepted.control is not record.control:
            why = "the baseline and the run differ in whether this is a control"
            return self._row(cell, Verdict.INVALID, Cause.CONTROL_MARK, why, self._accept(cell.case))
        if accepted.unit != record.unit:
            why = f"the unit differs: accepted in {accepted.unit!r}, measured in {record.unit!r}"
            return self._row(cell, Verdict.INVALID, Cause.UNIT, why, self._accept(cell.case))
        different = self._different[rule.number]
        if different is not None:
            remedy = f"measure under the accepted conditions, or accept the new ones: {self._accept(None)}"
            return self._row(cell, Verdict.INVALID, Cause.CONDITIONS, different, remedy)
        verdict, why = judge(rule, accepted.value, record.value, accepted.printed)
        if verdict is Verdict.PASS:
            return None
        cause = Cause.TYPE if verdict is Verdict.INVALID else Cause.COMPARED
        return self._row(cell, verdict, cause, why, self._remedy(verdict, cell.case, rule))

    def _ab(self, cell: Together, record: Record, rule: Rule) -> Row:
        """Compare the arms of one record with each other: the accepted value plays no part in it."""
        subject = record.sessions[0].arms[1].partition(FLAG_MARK)[0]
        if subject != self.run.subject.arm:
            why = f"arm B is {subject}, but the run is about {self.run.subject.arm}"
            return self._row(cell, Verdict.INVALID, Cause.ARM, why, "measure the arms the other way round")
        result = decide_record(rule, record, noise_for(rule, self.suite, record, self.run, self.aa))
        cause = Cause.TYPE if result.verdict is Verdict.INVALID else Cause.COMPARED
        # An improvement needs no acceptance: the next comparison is again one of arms with each other.
        settled = result.verdict in (Verdict.PASS, Verdict.IMPROVED)
        remedy = "" if settled else self._remedy(result.verdict, cell.case, rule)
        return dataclasses.replace(self._row(cell, result.verdict, cause, result.why, remedy), ab=result)

    def _unplanned(self, cell: Together) -> Row:
        assert cell.record is not None  # noqa: S101 - the caller has checked
        control = self._control(cell, cell.record) if cell.record.control else None
        if control is not None:
            return control
        remedy = f"add it to plan.toml under suite {self.suite}, or stop measuring it"
        return self._row(cell, Verdict.NEW, Cause.NOT_PLANNED, "measured, but not in the plan", remedy)

    def _orphan(self, cell: Together) -> Row:
        why = "accepted, but neither planned nor measured any more"
        remedy = f"plan it again, or accept without it: {self._accept(None)}"
        return self._row(cell, Verdict.MISSING, Cause.NOT_PLANNED, why, remedy)

    def _remedy(self, verdict: Verdict, case: str, rule: Rule) -> str:
        if verdict is Verdict.IMPROVED:
            return self._accept(case)
        if verdict is Verdict.INCONCLUSIVE:
            return f"measure a fresh session: python -m ci run {self.suite} --lane {self.lane}"
        if verdict is Verdict.REGRESSED and (rule.kind is Kind.AB or rule.limit is not None):
            # Decided by the rule alone: an accepted value changes nothing.
            return f"mend the patch; if the number of the rule is wrong, change it in {self.policy.path.name}"
        return f"mend the patch; if the new value is right: {self._accept(case)}"

    def _accept(self, case: str | None) -> str:
        chosen = "" if case is None else f" --case {shlex.quote(case)}"
        return f"python -m ci accept --lane {self.lane} --suite {self.suite}{chosen} --why TEXT"

    def _row(self, cell: Together, verdict: Verdict, cause: Cause, why: str, remedy: str) -> Row:
        record, accepted = cell.record, cell.accepted
        # A limit alone says what passes, without any accepted value.
        known = record if cause is Cause.COMPARED and accepted is None else accepted
        rule = self.policy.rule_for(self.suite, cell.case, cell.metric)
        return Row(
            lane=self.lane,
            suite=self.suite,
            case=cell.case,
            metric=cell.metric,
            verdict=verdict,
            cause=cause,
            baseline=Value(accepted.value, accepted.unit, accepted.printed) if accepted else None,
            got=Value(record.value, record.unit, record.printed) if record else None,
            rule=str(rule) if rule else "",
            why=why,
            remedy=remedy,
            control=record.control if record else accepted is not None and accepted.control,
            accepted=accepted.accepted if accepted else None,
            source=accepted.source if accepted else None,
            band=band(rule, known.value, known.printed) if rule and known else None,
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
