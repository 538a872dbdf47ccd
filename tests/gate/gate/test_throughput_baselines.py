"""The transcribed throughput baselines, held against the numbers that the replay reads from their tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.engine.profile import load_profile, profile_names
from ci.gate.plan import parse_plan
from ci.gate.policy import Kind, parse_policy
from ci.gate.replay import PUBLISHED
from ci.gate.values import rounding
from ci.results.jsonl import read_baseline

BASELINES = Path(__file__).parents[3] / "baselines"
LANES = ("rtx3090", "rtx4090")


@pytest.mark.parametrize("lane", LANES)
def test_every_number_says_where_it_was_printed(lane: str) -> None:
    """Each transcribed number has its source, and its digits are those of its value."""
    for record in read_baseline(BASELINES / lane / "throughput.jsonl").records:
        assert record.source is not None
        assert record.sessions == ()  # values of single boots were not published
        assert rounding(record.value, record.printed) is not None
        assert record.printed is not None or record.metric == "prompt_tokens"


@pytest.mark.parametrize("lane", LANES)
def test_cases_are_planned(lane: str) -> None:
    """What is accepted is planned on the lane under the same names."""
    plan = parse_plan((BASELINES / "plan.toml").read_text(encoding="utf-8"), BASELINES / "plan.toml")
    planned = {(one.case, one.metric) for one in plan.metrics(lane, "throughput")}
    records = read_baseline(BASELINES / lane / "throughput.jsonl").records
    assert {(one.case, one.metric) for one in records} <= planned


@pytest.mark.parametrize(
    "name",
    [
        "rtx3090-throughput",
        "rtx3090-captured",
        "rtx4090-steps",
        "any-gpu-captured",
        "any-gpu-verify",
    ],
)
def test_profiles_time_what_is_planned(name: str) -> None:
    """The prompts of a profile are the cases of its lane."""
    profile = load_profile(name)
    lane = "h200" if profile.lane == "any-gpu" else profile.lane
    plan = parse_plan((BASELINES / "plan.toml").read_text(encoding="utf-8"), BASELINES / "plan.toml")
    planned = {one.case for one in plan.metrics(lane, "throughput") if not one.control}
    assert profile.measure is not None
    assert {f"{profile.experiment}-{point.name}" for point in profile.measure.points} <= planned
    assert f"control-slowdown-{profile.experiment}" in {
        one.case for one in plan.metrics(lane, "throughput") if one.control
    }


def test_the_replay_reads_the_same_numbers() -> None:
    """Each rate and time of the baselines stands in the table that the replay judges."""
    printed = " ".join(one.numbers for one in PUBLISHED)
    for lane, metric in (("rtx3090", "decode_tok_s"), ("rtx4090", "step_ms")):
        for record in read_baseline(BASELINES / lane / "throughput.jsonl").records:
            if record.metric == metric:
                assert f"{record.printed} " in printed


def test_published_requests() -> None:
    """6,747 and 68,013 prompt tokens; 384 generated on the 3090 and 512 on the 4090; thinking off."""
    for name, generated in (("rtx3090-throughput", 384), ("rtx4090-steps", 512)):
        measure = load_profile(name).measure
        assert measure is not None
        assert [point.tokens for point in measure.points] == [6747, 68013]
        assert (measure.generate, measure.chat) == (generated, True)
        assert any("depth over 7" in words for words in measure.not_run)
        assert "several sequences at a time" in measure.not_run


@pytest.mark.parametrize("name", [name for name in profile_names() if load_profile(name).measure])
def test_the_judged_metric_has_a_rule_for_sessions(name: str) -> None:
    """Whatever a profile judges, in the suite or outside of it, the policy decides by boots."""
    profile = load_profile(name)
    assert profile.measure is not None
    path = BASELINES / "policy.toml"
    policy = parse_policy(path.read_text(encoding="utf-8"), path)
    for point in profile.measure.points:
        rule = policy.rule_for("throughput", f"{profile.experiment}-{point.name}", profile.measure.judge)
        assert rule is not None
        assert rule.kind is Kind.AB
