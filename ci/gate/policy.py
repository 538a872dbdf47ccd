"""How each metric is compared: ``baselines/policy.toml``.

Rules are tried in the order of the file and the first match decides, so
special rules stand before general ones.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import msgspec

from ci.errors import GateError
from ci.gate.tables import decode_table, matches, place, table_line

SCHEMA_VERSION = 1


MIN_PAIRS, MAX_PAIRS = 4, 100
"""With two pairs a slow boot now and then accuses too often: docs/calibration.md."""


class PolicyError(GateError):
    """The policy cannot be used as written."""


class NoRuleError(PolicyError):
    """A planned metric that no rule matches."""


class Kind(enum.Enum):
    """How a value is compared with its baseline."""

    EXACT = "exact"
    AT_MOST = "at-most"
    AT_LEAST = "at-least"
    RELATIVE = "relative"
    AB = "ab"
    INFO = "info"


class Direction(enum.Enum):
    """Which way is better."""

    HIGHER = "higher-is-better"
    LOWER = "lower-is-better"
    NEITHER = "neither"
    """Any change beyond the margin is a regression."""


class _RuleTable(msgspec.Struct, forbid_unknown_fields=True):
    match: str
    kind: Kind
    origin: str
    conditions: list[str] = []
    limit: int | float | None = None
    margin: float | None = None
    direction: Direction | None = None
    pairs: int | None = None


class _PolicyFile(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    rule: list[_RuleTable] = []


@dataclass(frozen=True)
class Rule:
    """One rule; fields that its kind does not use are None."""

    number: int
    """From 1, in the order of the file."""
    file: str
    line: int | None
    suite: str
    case: str
    metric: str
    kind: Kind
    origin: str
    """Where the rule's number comes from."""
    conditions: tuple[str, ...]
    """Names of the conditions that must be equal; the lane always must."""
    limit: int | float | None = None
    margin: float | None = None
    """Fraction of the baseline."""
    direction: Direction | None = None
    pairs: int | None = None

    @property
    def pattern(self) -> str:
        """Return the pattern as written."""
        return f"{self.suite}/{self.case}/{self.metric}"

    def may_cover(self, suite: str, metric: str) -> bool:
        """Tell whether suite and metric match, whatever the case."""
        return matches(self.suite, suite) and matches(self.metric, metric)

    def __str__(self) -> str:
        extra = "" if self.limit is None else f" {self.limit}"
        extra += "" if self.margin is None else f" {self.margin:.10g}"
        extra += "" if self.direction is None else f" {self.direction.value}"
        return f"{self.file}: rule {self.number} {self.pattern} {self.kind.value}{extra}"


@dataclass(frozen=True)
class Policy:
    """All rules in the order in which they are tried."""

    path: Path
    rules: tuple[Rule, ...]
    _by_metric: dict[tuple[str, str], tuple[Rule, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Rules whose suite and metric match, found so far: of a million records few differ in these."""

    def rule_for(self, suite: str, case: str, metric: str) -> Rule | None:
        """Return the first rule that matches, or None."""
        found = self._by_metric.get((suite, metric))
        if found is None:
            found = tuple(one for one in self.rules if one.may_cover(suite, metric))
            self._by_metric[suite, metric] = found
        for rule in found:
            if rule.case == "*" or matches(rule.case, case):
                return rule
        return None

    def for_suite(self, suite: str) -> Policy:
        """Return the rules that may match in ``suite``."""
        return Policy(self.path, tuple(rule for rule in self.rules if matches(rule.suite, suite)))


def parse_policy(text: str, path: Path) -> Policy:
    """Return the policy in ``text``.

    Raises:
        PolicyError: naming the file, the rule and its line.
    """
    table = decode_table(text, path, _PolicyFile, PolicyError)
    if table.schema != SCHEMA_VERSION:
        raise PolicyError(
            f"{path}: schema {table.schema}, this gate reads {SCHEMA_VERSION}",
            remedy=f"write schema = {SCHEMA_VERSION}",
        )
    if not table.rule:
        raise PolicyError(f"{path}: no rule", remedy="add a [[rule]] table; docs/policy.md shows one")
    rules = tuple(_rule(path, text, index, rule) for index, rule in enumerate(table.rule))
    _refuse_repeats(path, rules)
    return Policy(path, rules)


def _rule(path: Path, text: str, index: int, table: _RuleTable) -> Rule:
    line = table_line(text, "rule", index)
    where = f"{place(path, line)}: rule {index + 1} {table.match!r}"
    parts = table.match.split("/")
    if len(parts) < 3 or not all(parts):
        _refuse(where, "match is not suite/case/metric", 'write for example match = "property/*/violations"')
    if not table.origin.strip():
        _refuse(where, "origin is empty", "say where the rule's number comes from")
    _check_numbers(where, table)
    return Rule(
        number=index + 1,
        file=path.name,
        line=line,
        suite=parts[0],
        case="/".join(parts[1:-1]),  # a case may contain slashes, suites and metrics do not
        metric=parts[-1],
        kind=table.kind,
        origin=table.origin,
        conditions=tuple(table.conditions),
        limit=table.limit,
        margin=table.margin,
        direction=table.direction,
        pairs=table.pairs,
    )


_FIELDS: dict[Kind, tuple[str, ...]] = {
    Kind.EXACT: (),
    Kind.AT_MOST: (),
    Kind.AT_LEAST: (),
    Kind.RELATIVE: ("margin", "direction"),
    Kind.AB: ("margin", "direction", "pairs"),
    Kind.INFO: (),
}
_OPTIONAL = {Kind.AT_MOST: ("limit",), Kind.AT_LEAST: ("limit",)}


def _check_numbers(where: str, table: _RuleTable) -> None:
    needed = _FIELDS[table.kind]
    for name in ("limit", "margin", "direction", "pairs"):
        given = getattr(table, name) is not None
        if name in needed and not given:
            _refuse(where, f"kind {table.kind.value} needs {name}", f"add {name} = ...")
        if given and name not in needed and name not in _OPTIONAL.get(table.kind, ()):
            _refuse(where, f"kind {table.kind.value} has no {name}", f"remove {name}")
    if table.limit is not None and not abs(table.limit) < float("inf"):
        _refuse(where, "limit is not finite", "write a number")
    if table.margin is not None and not 0 < table.margin < 1:
        _refuse(where, "margin is not between 0 and 1", "write a fraction: 0.02 for two percent")
    if table.pairs is not None and (table.pairs % 2 or not MIN_PAIRS <= table.pairs <= MAX_PAIRS):
        what = f"pairs is not an even number between {MIN_PAIRS} and {MAX_PAIRS}"
        _refuse(where, what, "write the largest number of pairs of boots; A B B A makes two")
    if table.kind is Kind.AB and table.direction is Direction.NEITHER:
        _refuse(
            where, "an A/B comparison needs a better direction", "write higher-is-better or lower-is-better"
        )


def _refuse_repeats(path: Path, rules: tuple[Rule, ...]) -> None:
    first: dict[str, Rule] = {}
    for rule in rules:
        earlier = first.setdefault(rule.pattern, rule)
        if earlier is not rule:
            where = f"{place(path, rule.line)}: rule {rule.number}"
            _refuse(
                where, f"same pattern as rule {earlier.number}, so it is never used", "remove one of them"
            )


def _refuse(where: str, what: str, remedy: str) -> NoReturn:
    raise PolicyError(f"{where}: {what}", remedy=remedy)
