"""The policy is strict, and its first matching rule decides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ci.gate.plan import parse_plan
from ci.gate.policy import Direction, Kind, PolicyError, parse_policy
from tests.gate.samples import policy


def _text(**fields: str) -> str:
    rule = {"match": '"*/*/*"', "kind": '"exact"', "origin": '"o"'} | fields
    return "schema = 1\n\n[[rule]]\n" + "\n".join(
        f"{name} = {value}" for name, value in rule.items() if value
    )


def test_fields_are_read() -> None:
    """A rule keeps its kind, numbers, conditions and origin."""
    rule = policy().rules[3]
    assert (rule.kind, rule.margin, rule.direction) == (Kind.RELATIVE, 0.02, Direction.LOWER)
    assert (rule.conditions, rule.origin, rule.number, rule.line) == (
        ("driver",),
        "noise of ten boots",
        4,
        19,
    )


def test_rule_names_its_line_of_the_policy() -> None:
    """A rule shows as file, number, pattern and kind."""
    assert str(policy().rules[1]) == "policy.toml: rule 2 */*/violations exact"
    assert str(policy().rules[3]) == "policy.toml: rule 4 */boot/step_ms relative 0.02 lower-is-better"


def test_first_match_decides() -> None:
    """A special rule before a general one wins; the same pair the other way round does not."""
    special = '[[rule]]\nmatch = "p/a/m"\nkind = "info"\norigin = "o"\n'
    general = '[[rule]]\nmatch = "*/*/*"\nkind = "exact"\norigin = "o"\n'
    for first, second, kind in ((special, general, Kind.INFO), (general, special, Kind.EXACT)):
        rule = policy(f"schema = 1\n{first}{second}").rule_for("p", "a", "m")
        assert rule is not None
        assert rule.kind is kind


def test_no_match_is_none() -> None:
    """A metric that no rule matches has no rule."""
    assert policy().rule_for("property", "boot", "other") is None


def test_a_case_may_contain_slashes() -> None:
    """The suite ends at the first slash and the metric starts after the last."""
    found = policy(_text(match='"kernels/Gemm/0/ms"'))
    (rule,) = found.rules
    assert (rule.suite, rule.case, rule.metric) == ("kernels", "Gemm/0", "ms")
    assert found.rule_for("kernels", "Gemm/0", "ms") is rule


def test_what_was_looked_up_is_no_part_of_a_policy() -> None:
    """Two readings of one file are equal, whichever metrics were asked about since."""
    asked = policy()
    asked.rule_for("property", "grid", "violations")
    assert asked == policy()
    assert "violations')" not in repr(asked)


BAD = {
    "no-toml": ("schema = ", "no valid TOML"),
    "schema": ("schema = 2", "schema 2"),
    "schema-type": ('schema = "1"', "schema"),
    "no-rule": ("schema = 1", "no rule"),
    "unknown-field": (_text(extra="1"), "extra"),
    "unknown-kind": (_text(kind='"about"'), "about"),
    "two-parts": (_text(match='"a/b"'), "suite/case/metric"),
    "empty-part": (_text(match='"a//b"'), "suite/case/metric"),
    "no-origin": (_text(origin=""), "origin"),
    "blank-origin": (_text(origin='" "'), "origin is empty"),
    "no-margin": (_text(kind='"relative"', direction='"neither"'), "needs margin"),
    "no-direction": (_text(kind='"relative"', margin="0.1"), "needs direction"),
    "no-pairs": (_text(kind='"ab"', margin="0.1", direction='"lower-is-better"'), "needs pairs"),
    "margin-in-percent": (_text(kind='"relative"', margin="2.0", direction='"neither"'), "between 0 and 1"),
    "margin-zero": (_text(kind='"relative"', margin="0.0", direction='"neither"'), "between 0 and 1"),
    "margin-whole": (_text(kind='"relative"', margin="1.0", direction='"neither"'), "between 0 and 1"),
    "margin-nan": (_text(kind='"relative"', margin="nan", direction='"neither"'), "between 0 and 1"),
    "margin-for-exact": (_text(margin="0.1"), "has no margin"),
    "limit-for-exact": (_text(limit="1"), "has no limit"),
    "limit-inf": (_text(kind='"at-most"', limit="inf"), "finite"),
    "one-block": (_text(kind='"ab"', margin="0.1", direction='"lower-is-better"', pairs="2"), "pairs"),
    "odd-pairs": (_text(kind='"ab"', margin="0.1", direction='"lower-is-better"', pairs="5"), "even number"),
    "too-many-pairs": (_text(kind='"ab"', margin="0.1", direction='"lower-is-better"', pairs="102"), "pairs"),
    "unknown-table": (_text() + "\n[extra]\n", "extra"),
    "ab-both-ways": (_text(kind='"ab"', margin="0.1", direction='"neither"', pairs="4"), "better direction"),
    "condition-no-text": (_text(conditions="[1]"), "conditions"),
    "same-pattern": (_text() + _text().removeprefix("schema = 1"), "same pattern as rule 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_named(name: str) -> None:
    """Each mistake is an error with the file, the reason and a remedy."""
    text, words = BAD[name]
    with pytest.raises(PolicyError, match=words) as caught:
        parse_policy(text, Path("baselines/policy.toml"))
    assert "policy.toml" in caught.value.what
    assert caught.value.remedy


@pytest.mark.parametrize("pairs", [4, 100])
def test_edges_of_pairs_are_allowed(pairs: int) -> None:
    """The smallest and the largest number of pairs are accepted."""
    text = _text(kind='"ab"', margin="0.1", direction='"lower-is-better"', pairs=str(pairs))
    assert policy(text).rules[0].pairs == pairs


def test_mistakes_name_their_line() -> None:
    """A mistake inside a rule names the line where the rule starts."""
    with pytest.raises(PolicyError, match=r"policy\.toml:3: "):
        parse_policy(_text(extra="1"), Path("policy.toml"))
    with pytest.raises(PolicyError, match=r"policy\.toml:3: rule 1"):
        parse_policy(_text(origin='""'), Path("policy.toml"))


def test_our_own_policy_is_valid() -> None:
    """The policy in the repository parses."""
    path = Path(__file__).parents[3] / "baselines" / "policy.toml"
    assert parse_policy(path.read_text(), path).rules


def test_examples_of_the_documentation_are_valid() -> None:
    """The plan and the policy shown in docs/policy.md parse as shown."""
    text = (Path(__file__).parents[3] / "docs" / "policy.md").read_text()
    plan_text, policy_text = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert parse_plan(plan_text, Path("plan.toml")).suites_on("cpu") == ("property",)
    assert len(parse_policy(policy_text, Path("policy.toml")).rules) == 3
