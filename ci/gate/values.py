"""One value against its baseline under one rule."""

from __future__ import annotations

import re
from decimal import Decimal

from ci.gate.policy import Direction, Kind, Rule
from ci.gate.rows import Band
from ci.gate.verdict import Verdict
from ci.results.records import Scalar

_PLAIN_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?")


def judge(rule: Rule, accepted: Scalar, got: Scalar, printed: str | None = None) -> tuple[Verdict, str]:
    """Return the verdict on ``got`` and, unless it passes, why.

    Args:
        rule: how to compare.
        accepted: the baseline value.
        got: the measured value, not None.
        printed: the baseline's digits as published; half a unit of their last place is allowed.
    """
    if rule.kind is Kind.INFO:
        return Verdict.PASS, ""
    if rule.kind is Kind.EXACT and printed is None:
        if type(accepted) is not type(got):
            was = f"{_type(accepted)} was accepted, {_type(got)} was measured"
            return Verdict.INVALID, f"the type changed: {was}"
        good = accepted == got
        return (Verdict.PASS, "") if good else (Verdict.REGRESSED, "differs from the accepted value")
    slack = rounding(accepted, printed)
    if slack is None:
        return Verdict.INVALID, f"the baseline prints {printed!r}, which are not the digits of its value"
    if isinstance(got, bool | str) or isinstance(accepted, bool | str | None) or got is None:
        return Verdict.INVALID, f"{rule.kind.value} compares numbers, this is {_type(got)}"
    return _judge_number(rule, Decimal(repr(accepted)), Decimal(repr(got)), slack)


def rounding(value: Scalar, printed: str | None) -> Decimal | None:
    """Return half a unit of the last printed place; None if ``printed`` does not say ``value``."""
    if printed is None:
        return Decimal(0)
    if isinstance(value, bool | str) or value is None or not _PLAIN_NUMBER.fullmatch(printed):
        return None
    digits = Decimal(printed)
    exponent = digits.as_tuple().exponent
    if digits != Decimal(repr(value)) or not isinstance(exponent, int):
        return None
    return Decimal(5).scaleb(exponent - 1)


def _judge_number(rule: Rule, accepted: Decimal, got: Decimal, slack: Decimal) -> tuple[Verdict, str]:
    if rule.kind is Kind.EXACT:
        good = abs(got - accepted) <= slack
        return (
            (Verdict.PASS, "") if good else (Verdict.REGRESSED, "differs by more than the printed rounding")
        )
    if rule.kind in (Kind.AT_MOST, Kind.AT_LEAST):
        return _judge_bound(rule, accepted, got, slack)
    if rule.kind is Kind.AB:
        return Verdict.INCONCLUSIVE, "an A/B comparison needs paired boots, and this run has none"
    return _judge_relative(rule, accepted, got, slack)


def _judge_bound(rule: Rule, accepted: Decimal, got: Decimal, slack: Decimal) -> tuple[Verdict, str]:
    """Compare with the policy's limit if it has one, else with the accepted value."""
    bound, whose = accepted, "accepted value"
    if rule.limit is not None:
        bound, whose, slack = Decimal(repr(rule.limit)), f"limit {rule.limit}", Decimal(0)
    if rule.kind is Kind.AT_MOST:
        return (Verdict.PASS, "") if got <= bound + slack else (Verdict.REGRESSED, f"above the {whose}")
    return (Verdict.PASS, "") if got >= bound - slack else (Verdict.REGRESSED, f"below the {whose}")


def _judge_relative(rule: Rule, accepted: Decimal, got: Decimal, slack: Decimal) -> tuple[Verdict, str]:
    change = got - accepted
    allowed = abs(accepted) * Decimal(repr(rule.margin)) + slack
    if abs(change) <= allowed:
        return Verdict.PASS, ""
    share = f"{float(change / abs(accepted)):+.2%}" if accepted else f"{float(change):+g}"
    better = (change > 0) is (rule.direction is Direction.HIGHER)
    if rule.direction is not Direction.NEITHER and better:
        return Verdict.IMPROVED, f"{share}, better by more than the margin; accept it to refresh the baseline"
    return Verdict.REGRESSED, f"{share}, the margin is {rule.margin:.10g}"


def _type(value: Scalar) -> str:
    return "null" if value is None else type(value).__name__


def band(rule: Rule, accepted: Scalar, printed: str | None = None) -> Band | None:
    """Return the numbers that pass under ``rule``; None where numbers are not what decides."""
    slack = rounding(accepted, printed)
    if slack is None or isinstance(accepted, bool | str) or accepted is None:
        return None
    value = float(accepted)
    if rule.kind is Kind.EXACT:
        return Band(value - float(slack), value + float(slack))
    if rule.kind in (Kind.AT_MOST, Kind.AT_LEAST):
        at_most = rule.kind is Kind.AT_MOST
        bound = value + float(slack) if at_most else value - float(slack)
        if rule.limit is not None:
            bound = float(rule.limit)
        return Band(None, bound) if at_most else Band(bound, None)
    if rule.kind is not Kind.RELATIVE or rule.margin is None:
        return None
    reach = abs(value) * rule.margin + float(slack)
    low = None if rule.direction is Direction.LOWER else value - reach
    return Band(low, None if rule.direction is Direction.HIGHER else value + reach)
