"""The plan is strict, complete, and covered by the policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.gate.plan import PlanError, PlannedMetric, check_coverage, parse_plan
from ci.gate.policy import NoRuleError, parse_policy
from tests.gate.samples import PLAN_TEXT, POLICY_TEXT, plan, policy

HEAD = 'schema = 1\n[[suite]]\nname = "s"\nlanes = ["cpu", "h200"]\n'
CASE = '[[suite.case]]\nnames = ["a", "b"]\nmetrics = ["m", "n"]\n'
CONTROL = '[[suite.control]]\nnames = ["c"]\n'


def test_names_and_metrics_multiply() -> None:
    """A table of names and metrics plans every pair, in order; controls get red."""
    metrics = plan(HEAD + CASE + CONTROL).metrics("cpu", "s")
    assert metrics == (
        PlannedMetric("a", "m", False),
        PlannedMetric("a", "n", False),
        PlannedMetric("b", "m", False),
        PlannedMetric("b", "n", False),
        PlannedMetric("c", "red", True),
    )


def test_red_is_not_planned_twice() -> None:
    """Naming red for a control changes nothing."""
    named = plan(HEAD + CASE + CONTROL + 'metrics = ["red"]\n')
    assert named.metrics("cpu", "s") == plan(HEAD + CASE + CONTROL).metrics("cpu", "s")


def test_lanes() -> None:
    """Lanes and suites are known, and a case may be planned on some lanes only."""
    one = plan(
        HEAD + CASE + '[[suite.case]]\nnames = ["gpu"]\nmetrics = ["ms"]\nlanes = ["h200"]\n' + CONTROL
    )
    assert one.lanes == ("cpu", "h200")
    assert one.suites_on("h200") == ("s",)
    assert one.suites_on("rtx3090") == ()
    assert len(one.metrics("h200", "s")) == len(one.metrics("cpu", "s")) + 1
    assert one.metrics("rtx3090", "s") == ()
    every = plan(HEAD + CASE + 'lanes = ["h200", "cpu"]\n' + CONTROL)
    assert every.suites == plan(HEAD + CASE + CONTROL).suites


BAD = {
    "no-toml": ("[[suite", "no valid TOML"),
    "schema": ("schema = 9", "schema 9"),
    "no-suite": ("schema = 1", "no suite"),
    "unknown-field": (HEAD + "extra = 1\n" + CASE + CONTROL, "extra"),
    "unknown-field-of-the-file": ("extra = 1\n" + HEAD + CASE + CONTROL, "extra"),
    "unknown-field-of-a-case": (HEAD + CASE + "extra = 1\n" + CONTROL, "extra"),
    "bad-name": (HEAD.replace('"s"', '"../s"') + CASE + CONTROL, "name is not of"),
    "no-lanes": (HEAD.replace('"cpu", "h200"', "") + CASE + CONTROL, "lanes"),
    "bad-lane": (HEAD.replace("cpu", "a/b") + CASE + CONTROL, "lanes"),
    "no-case": (HEAD + CONTROL, "plans no case"),
    "no-control": (HEAD + CASE, "no control"),
    "no-metrics": (HEAD + CASE.replace('["m", "n"]', "[]") + CONTROL, "no metrics"),
    "empty-name": (HEAD + CASE.replace('"b"', '""') + CONTROL, "names"),
    "twice": (HEAD + CASE + CASE + CONTROL, "planned twice"),
    "case-and-control": (HEAD + CASE + CONTROL.replace('"c"', '"a"') + 'metrics = ["m"]\n', "planned twice"),
    "suite-twice": (
        HEAD + CASE + CONTROL + HEAD.removeprefix("schema = 1\n") + CASE + CONTROL,
        "planned twice",
    ),
    "foreign-lane": (HEAD + CASE + 'lanes = ["rtx3090"]\n' + CONTROL, "lane that the suite does not have"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_named(name: str) -> None:
    """Each mistake is an error with the file, the reason and a remedy."""
    text, words = BAD[name]
    with pytest.raises(PlanError, match=words) as caught:
        parse_plan(text, Path("plan.toml"))
    assert "plan.toml" in caught.value.what
    assert caught.value.remedy


def test_metric_without_a_rule_is_an_error() -> None:
    """A planned metric that no rule matches is named."""
    with pytest.raises(NoRuleError, match="property/grid/other"):
        check_coverage(
            plan(
                PLAN_TEXT.replace('names = ["grid"]\nmetrics = ["', 'names = ["grid"]\nmetrics = ["other", "')
            ),
            policy(),
        )


def test_unused_rule_is_reported() -> None:
    """A rule that no planned metric uses is a note, also when an earlier rule shadows it."""
    assert check_coverage(plan(), policy()) == ()
    shadowed = POLICY_TEXT + '\n[[rule]]\nmatch = "property/grid/violations"\nkind = "info"\norigin = "o"\n'
    (note,) = check_coverage(plan(), policy(shadowed))
    assert note == "policy.toml: rule 5 property/grid/violations info: no planned metric uses it"


def test_our_own_plan_is_covered() -> None:
    """The plan in the repository parses, and every metric in it has a rule."""
    folder = Path(__file__).parents[3] / "baselines"
    own = parse_plan((folder / "plan.toml").read_text(), folder / "plan.toml")
    rules = parse_policy((folder / "policy.toml").read_text(), folder / "policy.toml")
    assert check_coverage(own, rules) == ()
    assert own.suites_on("cpu")
