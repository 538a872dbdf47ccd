"""The transcribed quality baselines, held against the lines of the specification that they were read from."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.gate.plan import parse_plan
from ci.gate.policy import parse_policy
from ci.gate.values import rounding
from ci.results.jsonl import read_baseline
from ci.results.records import Scalar

BASELINES = Path(__file__).parents[3] / "baselines"
PUBLISHED: dict[str, dict[tuple[str, str], Scalar]] = {
    "rtx3090": {
        ("perplexity-en", "ratio"): 1 - 0.05 / 100,
        ("perplexity-da", "ratio"): 1 + 0.02 / 100,
        ("perplexity-code", "ratio"): 1 + 0.08 / 100,
        ("perplexity-all", "ratio"): 8.2087 / 8.2079,
        ("perplexity-all", "perplexity"): 8.2087,
        ("gsm8k", "items"): 200,
        ("gsm8k", "accuracy_a"): 0.945,
        ("gsm8k", "accuracy_b"): 0.955,
        ("gsm8k", "mean_tokens_a"): 381.0,
        ("gsm8k", "mean_tokens_b"): 375.0,
    },
    "rtx4090": {
        (f"tools-{name}", metric): 0
        for name in ("judgment", "mission")
        for metric in ("loops_b", "truncated_b")
    },
}


@pytest.mark.parametrize("lane", PUBLISHED)
def test_numbers(lane: str) -> None:
    """Each number is the published one to the digits that were printed, and says where it stood."""
    records = read_baseline(BASELINES / lane / "quality.jsonl").records
    assert {(one.case, one.metric) for one in records} == set(PUBLISHED[lane])
    for record in records:
        wanted, slack = PUBLISHED[lane][record.case, record.metric], rounding(record.value, record.printed)
        assert isinstance(wanted, int | float)
        assert isinstance(record.value, type(wanted))
        assert slack is not None
        assert float(record.value) == pytest.approx(wanted, abs=float(slack) + 1e-12)
        assert record.source
        assert record.printed is not None or isinstance(record.value, int)


@pytest.mark.parametrize("lane", PUBLISHED)
def test_planned_and_within_the_policy(lane: str) -> None:
    """Accepted numbers are planned, and none is beyond a limit that every run is held to."""
    plan = parse_plan((BASELINES / "plan.toml").read_text(encoding="utf-8"), BASELINES / "plan.toml")
    policy = parse_policy((BASELINES / "policy.toml").read_text(encoding="utf-8"), BASELINES / "policy.toml")
    planned = {(one.case, one.metric) for one in plan.metrics(lane, "quality")}
    for record in read_baseline(BASELINES / lane / "quality.jsonl").records:
        assert (record.case, record.metric) in planned
        rule = policy.rule_for("quality", record.case, record.metric)
        assert rule is not None
        assert rule.limit is None or float(record.value or 0) <= rule.limit
