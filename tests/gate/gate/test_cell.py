"""What becomes of one case and metric, where nothing around it decides first."""

from __future__ import annotations

import pytest

from ci.gate.cell import Cells, differing_condition
from ci.gate.merge import Together
from ci.gate.plan import PlannedMetric
from ci.gate.rows import Cause
from ci.gate.verdict import Verdict
from ci.results.records import Record
from tests.gate.samples import POLICY_TEXT, Sample, policy


def cells(sample: Sample, policy_text: str = POLICY_TEXT) -> Cells:
    """Return the judge of the sample's suite."""
    return Cells(policy(policy_text), "property", sample.run_head(), sample.baseline_head())


def together(sample: Sample, case: str, metric: str) -> Together:
    """Return the three sides of one metric."""
    key = (case, metric)
    return Together(
        case, metric, PlannedMetric(case, metric, False), sample.records.get(key), sample.accepted.get(key)
    )


def test_what_passes_has_no_row_until_it_is_asked_for() -> None:
    """Of a million cells that pass only a few are shown; the row says no more than that it passes."""
    sample = Sample()
    judge, cell = cells(sample), together(sample, "grid", "violations")
    assert judge.row(cell) is None
    row = judge.passed(cell)
    assert (row.verdict, row.cause, row.why, row.remedy) == (Verdict.PASS, Cause.COMPARED, "", "")
    assert (row.rule, row.control) == ("policy.toml: rule 2 */*/violations exact", False)


def test_a_metric_without_a_rule_is_invalid() -> None:
    """The plan and the policy are checked against each other first; a cell does not rely on it."""
    sample = Sample()
    row = cells(sample, POLICY_TEXT.replace("*/*/violations", "*/*/other")).row(
        together(sample, "grid", "violations")
    )
    assert row is not None
    assert (row.verdict, row.cause) == (Verdict.INVALID, Cause.NO_RULE)
    assert row.why == "no rule of policy.toml matches property/grid/violations"


def test_an_orphan_keeps_the_mark_of_its_baseline() -> None:
    """A control that is neither planned nor measured any more is still called one."""
    sample = Sample()
    accepted = sample.accepted["control-seq-rows", "violations"]
    row = cells(sample).row(Together("control-seq-rows", "violations", None, None, accepted))
    assert row is not None
    assert (row.verdict, row.control) == (Verdict.MISSING, True)
    new = Record("control-x", "violations", 1, "vectors", control=True)
    row = cells(sample).row(Together("control-x", "violations", None, new, None))
    assert row is not None
    assert (row.verdict, row.control) == (Verdict.NEW, True)


@pytest.mark.parametrize(
    ("accepted", "measured", "says"),
    [
        ("570.1", "570.1", None),
        ("570.1", "580", "condition driver differs: accepted under '570.1', measured under '580'"),
        (None, "580", "condition driver matters here, but the baseline does not know it"),
        ("570.1", None, "condition driver matters here, but the run does not know it"),
        (None, None, "condition driver matters here, but the baseline does not know it"),
        (1, True, "condition driver differs: accepted under 1, measured under True"),
    ],
)
def test_a_condition_that_differs_is_named_with_its_side(
    accepted: str | int | None, measured: str | bool | None, says: str | None
) -> None:
    """What one side could not read matches nothing, not even another unread one."""
    sample = Sample()
    sample.baseline_conditions["driver"], sample.run_conditions["driver"] = accepted, measured
    rule = policy().rule_for("property", "boot", "step_ms")
    assert rule is not None
    assert differing_condition(rule, sample.run_head(), sample.baseline_head()) == says
