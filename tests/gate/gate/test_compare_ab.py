"""A metric that compares two arms is judged by its own boots, whatever was accepted."""

from __future__ import annotations

import pytest

from ci.errors import ExitCode
from ci.gate.rows import Cause, Row
from ci.gate.verdict import Verdict
from ci.results.records import AaSession, AbSession, Record
from tests.gate.samples import (
    FIRST,
    PLAN_TEXT,
    POLICY_TEXT,
    Sample,
)

AB_RULE = """
[[rule]]
match = "*/speed/step_ms"
kind = "ab"
margin = 0.005
pairs = 8
direction = "lower-is-better"
origin = "half of the published spread"
conditions = ["driver"]
"""
AB_PLAN = '\n[[suite.case]]\nnames = ["speed"]\nmetrics = ["step_ms"]\n'


def _boots(slower: float, run: str = "s1", pairs: int = 8) -> AbSession:
    order = ("ABBA" * pairs)[: 2 * pairs]
    values = tuple(
        10 * (1 + (slower if arm == "B" else 0) + 0.0005 * (-1) ** (index // 4 + index))
        for index, arm in enumerate(order)
    )
    return AbSession(run, ("stock", "patched"), order, values)


def _ab_sample(*sessions: AbSession) -> Sample:
    sample = Sample(
        plan_text=PLAN_TEXT.replace("\n[[suite.control]]", AB_PLAN + "\n[[suite.control]]"),
        policy_text=POLICY_TEXT.replace("\n[[rule]]", AB_RULE + "\n[[rule]]", 1),
    )
    sample.records["speed", "step_ms"] = Record("speed", "step_ms", 10.0, "ms", sessions=sessions)
    return sample


def _row(sample: Sample) -> Row:
    (row,) = [row for row in sample.verdict().rows if row.case == "speed"]
    return row


def _told(sample: Sample) -> tuple[Verdict, Cause | None]:
    row = _row(sample)
    return row.verdict, row.cause


def test_ab_metric_is_judged_by_its_pairs_without_a_baseline() -> None:
    """Arms are compared with each other: no accepted value is needed, and the row carries the interval."""
    row = _row(_ab_sample(_boots(0.0)))
    assert (row.verdict, row.cause) == (Verdict.PASS, Cause.COMPARED)
    assert row.ab is not None
    assert row.ab.estimates[0].lower is not None
    assert "would have seen a loss of" in row.why
    assert row.remedy == ""
    assert _row(_ab_sample(_boots(-0.03))).remedy == ""
    assert _row(_ab_sample(_boots(0.03))).remedy.startswith("measure a fresh session")


def test_ab_regression_is_held_then_confirmed() -> None:
    """A slower arm is inconclusive until a session of another run says so too."""
    assert _told(_ab_sample(_boots(0.03))) == (Verdict.INCONCLUSIVE, Cause.COMPARED)
    both = _ab_sample(_boots(0.03), _boots(0.03, "s2"))
    assert _told(both) == (Verdict.REGRESSED, Cause.COMPARED)
    assert both.verdict().exit_code is ExitCode.REGRESSED


def test_ab_record_without_boots_is_inconclusive_or_new() -> None:
    """A single number proves nothing about speed."""
    assert _told(_ab_sample()) == (Verdict.NEW, Cause.NO_BASELINE)


def test_ab_in_another_order_is_invalid() -> None:
    """A B A B lets a drift align with the arm."""
    wrong = AbSession("s1", ("stock", "patched"), "ABABABAB", (10.0,) * 8)
    assert _told(_ab_sample(wrong)) == (Verdict.INVALID, Cause.TYPE)


def _aa(driver: str, noise: float = 0.02) -> AaSession:
    order = "ABBA" * 4
    values = tuple(10 * (1 + noise * (-1) ** (index // 4 + index)) for index in range(16))
    boots = AbSession(f"aa-{driver}", ("p", "p"), order, values)
    return AaSession(1, "property", "speed", "step_ms", "ms", boots, {"driver": driver}, FIRST)


@pytest.mark.parametrize(("driver", "verdict"), [("570.1", Verdict.INCONCLUSIVE), ("999", Verdict.PASS)])
def test_ab_pools_the_noise_of_its_own_conditions(driver: str, verdict: Verdict) -> None:
    """A/A sessions count where the conditions that matter are equal, and only there."""
    sample = _ab_sample(_boots(0.0))
    sample.aa = (_aa(driver),)
    assert _row(sample).verdict is verdict


@pytest.mark.parametrize("arms", [("patched", "stock"), ("patched+FLAG=0", "patched+FLAG=1")])
def test_ab_arm_b_is_the_subject(arms: tuple[str, str]) -> None:
    """Swapped arms would turn a loss into a gain; flag values behind the arm's name are no other arm."""
    row = _row(_ab_sample(AbSession("s1", arms, _boots(0.0).order, _boots(0.0).values)))
    assert (row.cause is Cause.ARM) is (arms[1] == "stock")


def test_what_a_rule_decides_alone_is_not_offered_for_acceptance() -> None:
    """Neither a limit nor an A/B margin looks at the accepted value, so accepting would mend nothing."""
    alone = "mend the patch; if the number of the rule is wrong, change it in policy.toml"
    slow = _row(_ab_sample(_boots(0.03, "s1"), _boots(0.03, "r1")))
    assert (slow.verdict, slow.remedy) == (Verdict.REGRESSED, alone)
    sample = Sample()
    sample.measure("boot", "bytes", 2048, "bytes")
    offered = "mend the patch; if the new value is right: python -m ci accept "
    for text, remedy in (
        (POLICY_TEXT, offered + "--lane cpu --suite property --case boot --why TEXT"),
        (POLICY_TEXT.replace('kind = "at-most"', 'kind = "at-most"\nlimit = 2000'), alone),
    ):
        sample.policy_text = text
        (row,) = [row for row in sample.verdict().rows if row.metric == "bytes"]
        assert (row.verdict, row.remedy) == (Verdict.REGRESSED, remedy)
