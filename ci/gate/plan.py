"""What must be measured: ``baselines/plan.toml``, known before any run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import msgspec

from ci.errors import GateError
from ci.gate.policy import NoRuleError, Policy
from ci.gate.tables import decode_table, place, table_line
from ci.results.jsonl import is_slug

SCHEMA_VERSION = 1
RED = "red"
"""The metric that every control must have: whether its check turned red."""


class PlanError(GateError):
    """The plan cannot be used as written."""


class _CaseTable(msgspec.Struct, forbid_unknown_fields=True):
    names: list[str]
    metrics: list[str] = []
    lanes: list[str] | None = None


class _SuiteTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    lanes: list[str]
    case: list[_CaseTable] = []
    control: list[_CaseTable] = []


class _PlanFile(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    suite: list[_SuiteTable] = []


@dataclass(frozen=True, slots=True)
class PlannedMetric:
    """One value that a run of the suite must give."""

    case: str
    metric: str
    control: bool


@dataclass(frozen=True)
class Plan:
    """Planned metrics by lane and suite, in the order of the file."""

    path: Path
    suites: dict[tuple[str, str], tuple[PlannedMetric, ...]]
    """(lane, suite) -> metrics; treat as read-only."""

    @property
    def lanes(self) -> tuple[str, ...]:
        """Return the lanes in the order in which the plan first names them."""
        return tuple(dict.fromkeys(lane for lane, _ in self.suites))

    def suites_on(self, lane: str) -> tuple[str, ...]:
        """Return the suites that must run on ``lane``."""
        return tuple(suite for one, suite in self.suites if one == lane)

    def metrics(self, lane: str, suite: str) -> tuple[PlannedMetric, ...]:
        """Return what ``suite`` must measure on ``lane``; empty if nothing is planned there."""
        return self.suites.get((lane, suite), ())


def parse_plan(text: str, path: Path) -> Plan:
    """Return the plan in ``text``; controls get the metric ``red`` without being asked.

    Raises:
        PlanError: naming the file, the suite and its line.
    """
    table = decode_table(text, path, _PlanFile, PlanError)
    if table.schema != SCHEMA_VERSION:
        raise PlanError(
            f"{path}: schema {table.schema}, this gate reads {SCHEMA_VERSION}",
            remedy=f"write schema = {SCHEMA_VERSION}",
        )
    if not table.suite:
        raise PlanError(
            f"{path}: no suite is planned", remedy="add a [[suite]] table; docs/policy.md shows one"
        )
    suites: dict[tuple[str, str], tuple[PlannedMetric, ...]] = {}
    for index, suite in enumerate(table.suite):
        where = f"{place(path, table_line(text, 'suite', index))}: suite {suite.name[:80]!r}"
        _check_suite(where, suite)
        for lane in suite.lanes:
            if (lane, suite.name) in suites:
                _refuse(where, f"is planned twice on lane {lane}", "join the two tables")
            suites[lane, suite.name] = _metrics(where, suite, lane)
    return Plan(path, suites)


def check_coverage(plan: Plan, policy: Policy) -> tuple[str, ...]:
    """Return a note for each rule that no planned metric uses.

    Raises:
        NoRuleError: a planned metric that no rule matches.
    """
    used: set[int] = set()
    for (_, suite), metrics in plan.suites.items():
        for metric in metrics:
            rule = policy.rule_for(suite, metric.case, metric.metric)
            if rule is None:
                name = f"{suite}/{metric.case}/{metric.metric}"
                raise NoRuleError(
                    f"{policy.path}: no rule matches {name}, which {plan.path.name} plans",
                    remedy="add a [[rule]] table for it, with the origin of its number",
                )
            used.add(rule.number)
    return tuple(f"{rule}: no planned metric uses it" for rule in policy.rules if rule.number not in used)


def _check_suite(where: str, suite: _SuiteTable) -> None:
    if not is_slug(suite.name):
        _refuse(where, "name is not of a-z, 0-9, '.', '_', '-'", "rename the suite")
    if not suite.lanes or not all(map(is_slug, suite.lanes)):
        _refuse(
            where,
            "lanes is empty or has a name that is not of a-z, 0-9, '.', '_', '-'",
            'write lanes = ["cpu"]',
        )
    if not suite.case:
        _refuse(where, "plans no case", "add a [[suite.case]] table")
    if not suite.control:
        _refuse(
            where,
            "has no control",
            "add a [[suite.control]] table: a check that never turned red proves nothing",
        )
    for table in (*suite.case, *suite.control):
        if not table.names or not all(table.names):
            _refuse(where, "a table has no names or an empty one", 'write names = ["grid"]')
        if not set(table.lanes or ()) <= set(suite.lanes):
            _refuse(
                where, "a case names a lane that the suite does not have", "add it to the lanes of the suite"
            )
    if not all(table.metrics for table in suite.case):
        _refuse(where, "a case has no metrics", 'write metrics = ["violations"]')


def _metrics(where: str, suite: _SuiteTable, lane: str) -> tuple[PlannedMetric, ...]:
    metrics: dict[tuple[str, str], PlannedMetric] = {}
    for table, control in [*((one, False) for one in suite.case), *((one, True) for one in suite.control)]:
        if table.lanes is not None and lane not in table.lanes:
            continue
        names = dict.fromkeys([*table.metrics, RED]) if control else table.metrics
        for case in table.names:
            for metric in names:
                if (case, metric) in metrics:
                    _refuse(where, f"case {case!r}, metric {metric!r} is planned twice", "remove one of them")
                metrics[case, metric] = PlannedMetric(case, metric, control)
    return tuple(metrics.values())


def _refuse(where: str, what: str, remedy: str) -> NoReturn:
    raise PlanError(f"{where}: {what}", remedy=remedy)
