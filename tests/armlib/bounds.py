"""The policy's own bounds and margins, for controls that must exceed them."""

from __future__ import annotations

from pathlib import Path

from ci.gate.policy import Rule, parse_policy

POLICY_FILE = Path(__file__).parents[2] / "baselines" / "policy.toml"


def bound_of(suite: str, case: str, metric: str) -> float:
    """The limit by which the policy judges a metric."""
    limit = _rule(suite, case, metric).limit
    assert limit is not None, f"{metric} has no bound in {POLICY_FILE.name}"
    return limit


def margin_of(suite: str, case: str, metric: str) -> float:
    """How far the policy lets a metric be from its accepted value, as a share of that."""
    margin = _rule(suite, case, metric).margin
    assert margin is not None, f"{metric} has no margin in {POLICY_FILE.name}"
    return margin


def _rule(suite: str, case: str, metric: str) -> Rule:
    policy = parse_policy(POLICY_FILE.read_text(encoding="utf-8"), POLICY_FILE)
    rule = policy.rule_for(suite, case, metric)
    assert rule is not None, f"{POLICY_FILE.name} has no rule for {suite}/{case}/{metric}"
    return rule
