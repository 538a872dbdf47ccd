"""The policy's own bounds, for controls that must exceed them."""

from __future__ import annotations

from pathlib import Path

from ci.gate.policy import parse_policy

POLICY_FILE = Path(__file__).parents[2] / "baselines" / "policy.toml"


def bound_of(suite: str, case: str, metric: str) -> float:
    """The limit by which the policy judges a metric."""
    policy = parse_policy(POLICY_FILE.read_text(encoding="utf-8"), POLICY_FILE)
    rule = policy.rule_for(suite, case, metric)
    assert rule is not None
    assert rule.limit is not None, f"{metric} has no bound in {POLICY_FILE.name}"
    return rule.limit
