"""Turning a run into the next baseline: what changes, what stays, what is refused.  Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

import msgspec

from ci.errors import GateError
from ci.gate.cell import differing_condition
from ci.gate.policy import Kind, Policy
from ci.gate.rows import Cause, Row, SuiteVerdict, Value
from ci.gate.tables import matches
from ci.gate.values import judge
from ci.gate.verdict import Verdict
from ci.results.aa import session_problem
from ci.results.folder import SuiteFiles
from ci.results.jsonl import Baseline, Results, record_order
from ci.results.records import (
    SCHEMA_VERSION,
    AaSession,
    Acceptance,
    BaselineHead,
    BaselineRecord,
    Record,
    Remeasure,
)

_REFUSED = {
    Cause.FILE: "the run cannot be used",
    Cause.TEST: "a test of the run is red",
    Cause.CONTROL_GREEN: "a control stayed green, so no number of the run counts",
    Cause.NO_RESULT: "a planned metric was not measured",
    Cause.UNREAD: "a value could not be read",
    Cause.NO_RULE: "no rule says how to compare it",
    Cause.CONTROL_MARK: "plan and run differ in whether it is a control",
    Cause.NOT_PLANNED: "it is not in the plan",
    Cause.ARM: "the arms are not those of the run",
}
_WHOLE_RUN = (Cause.FILE, Cause.TEST, Cause.CONTROL_GREEN)


class AcceptError(GateError):
    """A run, or a part of it, that must not become a baseline."""


class Step(enum.Enum):
    """What happened to one record of a baseline."""

    ADDED = "added"
    CHANGED = "changed"
    CONFIRMED = "confirmed"  # the same value, with a new acceptance
    REMOVED = "removed"


@dataclass(frozen=True)
class Change:
    """One record that differs between the old baseline and the new one."""

    step: Step
    case: str
    metric: str
    before: Value | None
    after: Value | None


@dataclass(frozen=True)
class Accepted:
    """The next baseline of one suite; ``baseline`` is the old one if nothing changes."""

    baseline: Baseline
    changes: tuple[Change, ...]
    kept: int


def accept_suite(
    files: SuiteFiles,
    verdict: SuiteVerdict,
    policy: Policy,
    case_pattern: str,
    acceptance: Acceptance,
    *,
    whole: bool = False,
) -> Accepted:
    """Take the cases that match ``case_pattern`` over into the baseline.

    A record whose value still passes keeps its value and its acceptance, so
    that noise inside a margin does not move a baseline step by step.  A baseline
    that is marked for measuring anew is replaced as a whole or not at all.

    Args:
        whole: values that still pass are taken too, so that all are of this run's arm.

    Raises:
        AcceptError: the run is no ground for a baseline; the message names the first reason.
    """
    chosen = [row for row in verdict.rows if matches(case_pattern, row.case)]
    if not chosen:
        raise AcceptError(
            f"{files.lane}/{files.suite}: no case matches {case_pattern!r}",
            remedy="* and ? are the only wildcards; python -m ci diff names the cases",
        )
    for row in verdict.rows:
        if row.cause in _WHOLE_RUN or (matches(case_pattern, row.case) and _refused(row)):
            _refuse(row)
    if files.results is None:
        raise AcceptError(f"{files.lane}/{files.suite}: there is no result to accept")
    for row in chosen:
        _check_helps(row, policy)
    mark = files.baseline.head.remeasure if files.baseline is not None else None
    if mark is not None:
        _check_measured(files, files.results, mark)
    keys = {
        (row.case, row.metric)
        for row in chosen
        if row.got is not None and (whole or mark is not None or not _unchanged(row))
    }
    gone = {(row.case, row.metric) for row in chosen if row.got is None and row.cause is Cause.NOT_PLANNED}
    return _next_baseline(files.results, files.baseline, policy, keys, gone, acceptance)


def new_aa_sessions(files: SuiteFiles, case_pattern: str, acceptance: Acceptance) -> tuple[AaSession, ...]:
    """Return the sessions of an arm against itself that the lane's A/A file does not have yet."""
    if files.results is None:
        return ()
    known = {(one.suite, one.case, one.metric, one.session.run) for one in files.aa}
    return tuple(
        AaSession(
            SCHEMA_VERSION,
            files.suite,
            record.case,
            record.metric,
            record.unit,
            session,
            files.results.head.conditions,
            acceptance,
        )
        for record in files.results.records
        if matches(case_pattern, record.case)
        for session in record.sessions
        if session.arms[0] == session.arms[1]
        and (files.suite, record.case, record.metric, session.run) not in known
        and session_problem(session) is None
    )


def _refused(row: Row) -> bool:
    dropped = row.cause is Cause.NOT_PLANNED and row.got is None
    return row.cause in _REFUSED and not dropped


def _refuse(row: Row) -> NoReturn:
    raise AcceptError(
        f"{row.lane}/{row.suite} {row.case} {row.metric}: {_REFUSED[row.cause]}: {row.why}",
        remedy=row.remedy or None,
    )


def _check_helps(row: Row, policy: Policy) -> None:
    """Refuse a value that would be red against itself: no baseline makes it pass."""
    rule = policy.rule_for(row.suite, row.case, row.metric)
    if rule is None or row.got is None:
        return
    name = f"{row.lane}/{row.suite} {row.case} {row.metric}"
    if rule.kind is Kind.AB:
        if row.ab is not None and row.ab.awaiting:
            raise AcceptError(
                f"{name} came out worse, and a fresh session has to confirm that first: {row.why}",
                remedy=f"python -m ci run {row.suite} --lane {row.lane}",
            )
        if row.verdict is Verdict.REGRESSED:
            raise AcceptError(
                f"{name} is regressed, and accepting it cannot change that: {row.why}",
                cause="an A/B metric compares the arms of one run; the accepted value plays no part in it",
                remedy=f"mend the patch, or change {rule} with the origin of its margin",
            )
        return
    verdict, why = judge(rule, row.got.value, row.got.value, row.got.printed)
    if verdict is not Verdict.PASS:
        raise AcceptError(
            f"{name}: {row.got.value} {row.got.unit} would be {verdict.value} against itself: {why}",
            cause=f"{rule} decides without regard to the accepted value",
            remedy="mend the patch; if the policy is wrong, change its line and the origin of its number",
        )


def _unchanged(row: Row) -> bool:
    if row.baseline is None:  # two arms can pass without one
        return False
    same = row.baseline == row.got and row.cause is Cause.COMPARED
    return same or row.verdict is Verdict.PASS


def _check_measured(files: SuiteFiles, results: Results, mark: Remeasure) -> None:
    """Refuse a run that is not the one a marked baseline waits for."""
    measured = results.head.conditions.get("vllm")
    if measured != mark.vllm:
        raise AcceptError(
            f"{files.lane}/{files.suite} is to be measured anew on vllm {mark.vllm}, "
            f"this run is of {measured or 'a version it does not name'}",
            cause=mark.why,
            remedy=f"python -m ci run {files.suite} --lane {files.lane}",
        )


def _next_baseline(
    results: Results,
    old: Baseline | None,
    policy: Policy,
    keys: set[tuple[str, str]],
    gone: set[tuple[str, str]],
    acceptance: Acceptance,
) -> Accepted:
    before = {(one.case, one.metric): one for one in old.records} if old else {}
    if old is not None and not keys and not gone:
        return Accepted(old, (), len(before))
    taken = {
        (one.case, one.metric): _baseline_record(one, acceptance)
        for one in results.records
        if (one.case, one.metric) in keys
    }
    kept = {key: one for key, one in before.items() if key not in taken and key not in gone}
    if old is not None and taken:
        _check_kept(results, old.head, policy, kept.values())
    head = _baseline_head(results) if taken or old is None else old.head
    records = sorted([*kept.values(), *taken.values()], key=record_order)
    changes = [_change(before.get(key), taken.get(key)) for key in sorted({*taken, *gone})]
    return Accepted(Baseline(head, tuple(records)), tuple(changes), len(kept))


def _check_kept(results: Results, old: BaselineHead, policy: Policy, kept: Iterable[BaselineRecord]) -> None:
    """Refuse a new head that would claim conditions under which a kept value was not measured."""
    for record in kept:
        if old.remeasure is not None:
            raise AcceptError(
                f"{old.lane}/{old.suite} {record.case} {record.metric} would stay, "
                f"but was never measured on vllm {old.remeasure.vllm}",
                cause=old.remeasure.why,
                remedy="accept the whole suite: "
                f"python -m ci accept --lane {old.lane} --suite {old.suite} --why TEXT",
            )
        rule = policy.rule_for(old.suite, record.case, record.metric)
        different = differing_condition(rule, results.head, old) if rule else None
        if different is not None:
            raise AcceptError(
                f"{old.lane}/{old.suite} {record.case} {record.metric} would stay, but {different}",
                cause="a baseline file has one set of conditions for all of its records",
                remedy="accept the whole suite: "
                f"python -m ci accept --lane {old.lane} --suite {old.suite} --why TEXT",
            )


def _baseline_head(results: Results) -> BaselineHead:
    head = results.head
    return BaselineHead(
        schema=SCHEMA_VERSION,
        lane=head.lane,
        suite=head.suite,
        subject=head.subject,
        conditions=head.conditions,
        provenance=head.provenance,
    )


def _baseline_record(record: Record, acceptance: Acceptance) -> BaselineRecord:
    fields = msgspec.structs.asdict(record)
    return BaselineRecord(accepted=acceptance, **fields)


def _change(before: BaselineRecord | None, after: BaselineRecord | None) -> Change:
    either = after or before
    assert either is not None  # noqa: S101 - a change has at least one side
    old, new = _value(before), _value(after)
    if old is None or new is None:
        step = Step.ADDED if old is None else Step.REMOVED
    else:
        step = Step.CONFIRMED if old == new else Step.CHANGED
    return Change(step, either.case, either.metric, old, new)


def _value(record: BaselineRecord | None) -> Value | None:
    return Value(record.value, record.unit, record.printed) if record else None
