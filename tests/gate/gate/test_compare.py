"""Planned equals measured equals accepted, and every way in which it does not has its verdict."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from ci.errors import ExitCode
from ci.gate.compare import compare_suite
from ci.gate.rows import Cause, GateVerdict, Row
from ci.gate.values import Band
from ci.gate.verdict import Verdict
from ci.results.folder import BASELINE_FILE, JUNIT_FILE, RECORDS_FILE, FileProblem
from ci.results.jsonl import record_order
from ci.results.records import BaselineRecord, Remeasure
from tests.gate.samples import (
    FIRST,
    JUNIT_TEXT,
    NOW,
    PLAN_TEXT,
    POLICY_TEXT,
    STARTED,
    WRITTEN,
    Sample,
    plan,
    policy,
)


def _is(row: Row, verdict: Verdict, cause: Cause) -> bool:
    return (row.verdict, row.cause) == (verdict, cause)


def test_the_sample_passes() -> None:
    """The undamaged sample is green, so that each damage below is what turns it."""
    suite = Sample().verdict()
    assert (suite.verdict, suite.exit_code) == (Verdict.PASS, ExitCode.PASS)
    assert len(suite.rows) == 5
    assert (suite.cases_measured, suite.cases_planned) == (2, 2)
    assert (suite.controls_red, suite.controls_planned) == (1, 1)
    assert (suite.tests_executed, suite.subject) == (2, "patched")


def test_edited_baseline_number_is_regressed() -> None:
    """One changed number gives exit 1 and a row with both values and the policy line."""
    sample = Sample()
    sample.accept("grid", "violations", 7, "vectors")
    row = sample.only()
    assert _is(row, Verdict.REGRESSED, Cause.COMPARED)
    assert (row.lane, row.suite, row.case, row.metric) == ("cpu", "property", "grid", "violations")
    assert row.baseline is not None
    assert row.got is not None
    assert (row.baseline.value, row.got.value) == (7, 0)
    assert row.rule == "policy.toml: rule 2 */*/violations exact"
    assert row.accepted == FIRST
    assert sample.verdict().exit_code is ExitCode.REGRESSED


def test_worse_metric_is_regressed_and_better_is_improved() -> None:
    """A relative metric may move by its margin, and the direction decides beyond it."""
    for got, verdict, code in ((10.5, Verdict.REGRESSED, 1), (9.5, Verdict.IMPROVED, 0)):
        sample = Sample()
        sample.measure("boot", "step_ms", got, "ms")
        assert sample.only().verdict is verdict
        assert int(sample.verdict().exit_code) == code
        assert "accept --lane cpu --suite property --case boot" in sample.only().remedy


def test_planned_without_result_is_missing() -> None:
    """A planned metric that was not measured is missing, with or without a baseline."""
    for accepted in (True, False):
        sample = Sample()
        del sample.records["grid", "violations"]
        if not accepted:
            del sample.accepted["grid", "violations"]
        assert _is(sample.only(), Verdict.MISSING, Cause.NO_RESULT)
        assert sample.verdict().exit_code is ExitCode.NO_VERDICT


def test_result_without_baseline_is_new() -> None:
    """A planned and measured metric that was never accepted is new."""
    sample = Sample()
    del sample.accepted["grid", "violations"]
    assert _is(sample.only(), Verdict.NEW, Cause.NO_BASELINE)


@pytest.mark.parametrize(("limit", "verdict"), [(1000, Verdict.REGRESSED), (5000, Verdict.NEW)])
def test_a_limit_holds_without_a_baseline(limit: int, verdict: Verdict) -> None:
    """A value beyond a limit is not offered for acceptance, which would be refused; one within it is new."""
    text = POLICY_TEXT.replace('kind = "at-most"', f'kind = "at-most"\nlimit = {limit}')
    sample = Sample(has_baseline=False, policy_text=text)
    sample.measure("boot", "bytes", 2048, "bytes")
    (row,) = [row for row in sample.verdict().rows if row.metric == "bytes"]
    assert row.verdict is verdict
    assert ("ci accept" in row.remedy) is (verdict is Verdict.NEW)
    assert row.band == (Band(None, limit) if verdict is Verdict.REGRESSED else None)
    sample.measure("boot", "bytes", "many", "bytes")
    (row,) = [row for row in sample.verdict().rows if row.metric == "bytes"]
    assert _is(row, Verdict.INVALID, Cause.TYPE)


def test_no_baseline_file_makes_everything_new() -> None:
    """Without a baseline every result is new, controls included."""
    sample = Sample(has_baseline=False)
    assert {row.verdict for row in sample.verdict().rows} == {Verdict.NEW}
    assert len(sample.verdict().rows) == 5


def test_unplanned_result_is_new_and_named() -> None:
    """A result outside of the plan is shown, also when a baseline agrees with it."""
    for accepted in (True, False):
        sample = Sample()
        sample.measure("extra", "violations", 0)
        if accepted:
            sample.accept("extra", "violations", 0, "vectors")
        row = sample.only()
        assert _is(row, Verdict.NEW, Cause.NOT_PLANNED)
        assert row.case == "extra"


def test_baseline_without_plan_is_missing() -> None:
    """An accepted record that nothing plans or measures any more is not forgotten."""
    sample = Sample()
    sample.accept("old", "violations", 0, "vectors")
    assert _is(sample.only(), Verdict.MISSING, Cause.NOT_PLANNED)


def test_emptied_run_is_missing_everywhere() -> None:
    """A run with a head and no record is no pass."""
    sample = Sample()
    sample.records.clear()
    suite = sample.verdict()
    assert {row.verdict for row in suite.rows} == {Verdict.MISSING}
    assert suite.exit_code is ExitCode.NO_VERDICT


def test_emptied_plan_does_not_pass() -> None:
    """With no metric planned every result is unplanned; with nothing at all the suite is invalid."""
    sample = Sample(plan_text=PLAN_TEXT.replace('"property"', '"other"'))
    assert sample.verdict().exit_code is ExitCode.NO_VERDICT
    sample.records.clear()
    sample.accepted.clear()
    assert sample.verdict().rows == ()
    assert (sample.verdict().verdict, sample.verdict().exit_code) == (Verdict.INVALID, ExitCode.NO_VERDICT)


@pytest.mark.parametrize("value", [False, None, 1, "true"])
def test_control_that_stayed_green_fails_the_run(value: bool | int | str | None) -> None:
    """Anything but true as a control's red is exit 3, whatever the baseline says."""
    sample = Sample()
    sample.measure("control-seq-rows", "red", value, "bool", control=True, reason="why")
    assert sample.only().cause is Cause.CONTROL_GREEN
    assert sample.verdict().exit_code is ExitCode.CONTROL_FAILED


def test_accepted_green_control_still_fails() -> None:
    """A baseline cannot make a green control right."""
    sample = Sample()
    sample.measure("control-seq-rows", "red", False, "bool", control=True)
    sample.accept("control-seq-rows", "red", False, "bool")
    assert sample.verdict().exit_code is ExitCode.CONTROL_FAILED


def test_green_control_counts_without_plan_mark_or_baseline() -> None:
    """A green control is exit 3 also if it is unplanned, unmarked, or its baseline cannot be read."""
    unplanned, unmarked, unread = Sample(), Sample(), Sample(has_baseline=False)
    unplanned.measure("control-other", "red", False, "bool", control=True)
    unmarked.measure("control-seq-rows", "red", False, "bool")
    unread.measure("control-seq-rows", "red", False, "bool", control=True)
    unread.problems = (FileProblem(BASELINE_FILE, False, "broken", None),)
    for sample in (unplanned, unmarked, unread):
        assert sample.verdict().exit_code is ExitCode.CONTROL_FAILED


def test_missing_control_is_missing() -> None:
    """A control that was not run is no green control, and no pass either."""
    sample = Sample()
    del sample.records["control-seq-rows", "red"]
    assert sample.only().verdict is Verdict.MISSING
    assert sample.verdict().controls_red == 0


def test_control_mark_must_agree_with_the_plan() -> None:
    """A control recorded as a plain case is invalid, and the other way round."""
    for case, metric in (("control-seq-rows", "violations"), ("grid", "violations")):
        sample = Sample()
        value = sample.records[case, metric].value
        sample.measure(case, metric, value, control=case == "grid")
        assert _is(sample.only(), Verdict.INVALID, Cause.CONTROL_MARK)


def test_unread_value_is_invalid() -> None:
    """A value that could not be read is invalid with its reason, never zero."""
    sample = Sample()
    sample.measure("grid", "violations", None, reason="line 7 of boot.log not found")
    row = sample.only()
    assert _is(row, Verdict.INVALID, Cause.UNREAD)
    assert "line 7 of boot.log" in row.why


def test_other_unit_is_invalid() -> None:
    """The same number in another unit is not compared."""
    sample = Sample()
    sample.measure("grid", "violations", 0, "classes")
    row = sample.only()
    assert _is(row, Verdict.INVALID, Cause.UNIT)
    assert "'vectors'" in row.why
    assert "'classes'" in row.why


def test_other_type_is_invalid() -> None:
    """False is not 0."""
    sample = Sample()
    sample.measure("grid", "violations", False)
    assert _is(sample.only(), Verdict.INVALID, Cause.TYPE)


def test_metric_without_rule_is_invalid() -> None:
    """A metric that no rule matches is not compared."""
    sample = Sample(policy_text='schema = 1\n[[rule]]\nmatch = "*/[bg]*/*"\nkind = "exact"\norigin = "o"\n')
    assert {row.cause for row in sample.verdict().rows} == {Cause.NO_RULE}


@pytest.mark.parametrize("side", ["run", "baseline"])
def test_condition_that_matters_and_differs_is_invalid(side: str) -> None:
    """Another vLLM makes the counts incomparable and is named with both values; times do not mind."""
    sample = Sample()
    changed = sample.run_conditions if side == "run" else sample.baseline_conditions
    changed["vllm"] = "0.28.0"
    rows = [row for row in sample.verdict().rows if row.verdict is not Verdict.PASS]
    assert [(row.case, row.cause) for row in rows] == [
        ("control-seq-rows", Cause.CONDITIONS),
        ("grid", Cause.CONDITIONS),
    ]
    assert "vllm" in rows[0].why
    assert "'0.28.0'" in rows[0].why
    assert "'0.27.1'" in rows[0].why


def test_condition_that_does_not_matter_may_differ() -> None:
    """Another torch changes nothing where no rule names it."""
    sample = Sample()
    sample.run_conditions["torch"] = "2.14.0"
    assert sample.verdict().verdict is Verdict.PASS


@pytest.mark.parametrize("unread", [True, False])
def test_unknown_condition_matches_nothing(unread: bool) -> None:
    """A condition that matters and is unread or absent on both sides is not equal."""
    sample = Sample()
    for side in (sample.run_conditions, sample.baseline_conditions):
        side["driver"] = None
        if not unread:
            del side["driver"]
    row = sample.only()
    assert _is(row, Verdict.INVALID, Cause.CONDITIONS)
    assert "driver" in row.why


def test_condition_types_are_strict() -> None:
    """True and 1 are different conditions."""
    sample = Sample()
    sample.run_conditions["driver"], sample.baseline_conditions["driver"] = True, 1
    assert sample.only().cause is Cause.CONDITIONS


def test_subject_may_differ() -> None:
    """Another series hash is what a comparison is about."""
    sample = Sample()
    assert sample.run_head().subject != sample.baseline_head().subject
    assert sample.verdict().verdict is Verdict.PASS


def test_baseline_of_another_lane_is_invalid() -> None:
    """A baseline copied from another lane is refused for every metric."""
    sample = Sample(baseline_lane="h200")
    assert {row.verdict for row in sample.verdict().rows} == {Verdict.INVALID}


STALE = {
    "other-run": Sample(head_run="r0"),
    "other-lane": Sample(head_lane="h200"),
    "old-files": Sample(written=WRITTEN - timedelta(hours=1)),
    "from-the-future": Sample(started="2026-09-01T13:00:00Z", written=NOW + timedelta(hours=1)),
}


@pytest.mark.parametrize("name", STALE)
def test_stale_or_foreign_results_are_invalid(name: str) -> None:
    """Records of another run, or older than the run, neither pass nor fail."""
    suite = STALE[name].verdict()
    assert {row.verdict for row in suite.rows} == {Verdict.INVALID}
    assert {row.cause for row in suite.rows} == {Cause.FILE}
    assert suite.exit_code is ExitCode.NO_VERDICT


def test_stale_results_cannot_regress() -> None:
    """A bad number in a stale file is not the fault of this patch."""
    sample = Sample(head_run="r0")
    sample.measure("grid", "violations", 5)
    assert sample.verdict().exit_code is ExitCode.NO_VERDICT


def test_files_written_at_the_start_are_fresh() -> None:
    """Coarse file times do not make a fast run stale."""
    assert STARTED.endswith("11:00:00Z")
    started = WRITTEN.replace(minute=0)
    assert Sample(written=started - timedelta(seconds=1)).verdict().verdict is Verdict.PASS
    assert Sample(written=started - timedelta(seconds=3)).verdict().verdict is Verdict.INVALID


@pytest.mark.parametrize("missing", [True, False])
def test_unusable_records_are_one_row(missing: bool) -> None:
    """A deleted file is missing, a broken one invalid, and the row says how much is unknown."""
    sample = Sample(
        has_results=False, problems=(FileProblem(RECORDS_FILE, missing, "r.jsonl:3: torn", "again"),)
    )
    row = sample.only()
    assert _is(row, Verdict.MISSING if missing else Verdict.INVALID, Cause.FILE)
    assert row.why == "r.jsonl:3: torn; none of 5 planned metrics is known"
    assert row.remedy == "again"


def test_unusable_baseline_is_invalid() -> None:
    """A broken baseline is one row; it does not call accepted values new."""
    sample = Sample(
        has_baseline=False, problems=(FileProblem(BASELINE_FILE, False, "b.jsonl:3: torn", None),)
    )
    (row,) = sample.verdict().rows
    assert _is(row, Verdict.INVALID, Cause.FILE)


def test_missing_junit_is_no_pass() -> None:
    """Good numbers without a test report are not enough."""
    sample = Sample(has_junit=False, problems=(FileProblem(JUNIT_FILE, True, "no such file", None),))
    assert _is(sample.only(), Verdict.MISSING, Cause.FILE)
    assert sample.verdict().tests_executed is None


def test_failed_test_is_regressed_beside_good_numbers() -> None:
    """A red test is not outvoted by values that agree."""
    sample = Sample(
        junit_text=JUNIT_TEXT.replace('name="b" time="0.1"/>', 'name="b"><failure message="m"/></testcase>')
    )
    row = sample.only()
    assert _is(row, Verdict.REGRESSED, Cause.TEST)
    assert (row.case, row.why) == ("t::b", "m")


def test_row_order_is_worst_first() -> None:
    """A failed control, then regressed, invalid, missing, new, improved, pass."""
    sample = Sample()
    sample.measure("control-seq-rows", "red", False, "bool", control=True)
    sample.measure("boot", "step_ms", 9.0, "ms")
    sample.measure("boot", "bytes", 2048, "bytes")
    del sample.records["grid", "violations"]
    rows = GateVerdict((sample.verdict(),)).rows
    assert [row.cause is Cause.CONTROL_GREEN for row in rows][:2] == [True, False]
    assert [row.verdict.value for row in rows[1:]] == ["regressed", "missing", "improved", "pass"]


def test_joined_verdict() -> None:
    """Several suites join as their rows would, and the detail counts what is not green."""
    good, bad = Sample(), Sample()
    bad.measure("grid", "violations", 1)
    joined = GateVerdict((good.verdict(), bad.verdict()))
    assert joined.outcome == (Verdict.REGRESSED, ExitCode.REGRESSED)
    assert joined.detail == "1 regressed of 10 checks in 2 suites on cpu"
    assert GateVerdict((good.verdict(),)).detail == "5 checks in 1 suite on cpu"
    assert GateVerdict(()).outcome == (Verdict.INVALID, ExitCode.NO_VERDICT)
    assert GateVerdict(()).detail == "nothing was compared: 0 suites on no lane"
    bad.measure("control-seq-rows", "red", False, "bool", control=True)
    assert GateVerdict((good.verdict(), bad.verdict())).outcome[1] is ExitCode.CONTROL_FAILED
    assert "control cpu/property control-seq-rows" in GateVerdict((bad.verdict(),)).detail


def test_rows_beyond_a_limit_are_counted() -> None:
    """Rows that are not kept still count in every sum, in the verdict and in the exit code."""
    sample = Sample()
    for number in range(4):
        sample.measure(f"extra-{number}", "violations", 0)
    full = sample.verdict()
    short = compare_suite(plan(sample.plan_text), policy(sample.policy_text), sample.files(), NOW, keep=2)
    assert (len(full.rows), len(short.rows)) == (9, 4)
    assert short.counts == full.counts
    assert (short.verdict, short.exit_code) == (full.verdict, full.exit_code)
    assert GateVerdict((short,)).detail == GateVerdict((full,)).detail
    none = compare_suite(plan(sample.plan_text), policy(sample.policy_text), Sample().files(), NOW, keep=0)
    assert (none.rows, none.verdict) == ((), Verdict.PASS)


def test_a_green_control_is_always_kept() -> None:
    """No limit can hide the row that makes the run worthless."""
    sample = Sample()
    sample.measure("control-seq-rows", "red", False, "bool", control=True)
    suite = compare_suite(plan(sample.plan_text), policy(sample.policy_text), sample.files(), NOW, keep=0)
    assert suite.exit_code is ExitCode.CONTROL_FAILED
    assert (suite.controls_red, suite.controls_planned) == (0, 1)


def test_another_true_metric_of_a_control_is_not_its_redness() -> None:
    """Only the metric `red` says that a control turned red."""
    sample = Sample()
    sample.measure("control-seq-rows", "red", False, "bool", control=True)
    sample.measure("control-seq-rows", "violations", True, "bool", control=True)
    assert sample.verdict().controls_red == 0


def test_only_planned_cases_count_as_measured() -> None:
    """One of two planned cases was measured, and one that nobody planned."""
    sample = Sample()
    del sample.records["grid", "violations"]
    sample.measure("extra", "violations", 0)
    suite = sample.verdict()
    assert (suite.cases_measured, suite.cases_planned) == (1, 2)


def test_a_stale_test_report_counts_no_test() -> None:
    """Tests of another run say nothing about this one, neither red nor green."""
    sample = Sample()
    files = sample.files()
    assert files.written is not None
    old = {**files.written, JUNIT_FILE: datetime(2026, 8, 1, tzinfo=UTC)}
    stale = dataclasses.replace(files, written=old)
    suite = compare_suite(plan(sample.plan_text), policy(sample.policy_text), stale, NOW)
    assert (suite.tests_executed, suite.cases_measured) == (None, 2)


def test_a_baseline_that_is_read_as_a_stream_is_not_called_transcribed() -> None:
    """Nobody copies a million numbers from a publication, so they are not counted a second time."""
    sample = Sample()
    files = sample.files()
    assert files.baseline is not None
    stream = dataclasses.replace(files.baseline, records=sorted(files.baseline.records, key=record_order))
    large = dataclasses.replace(files, baseline=stream)
    suite = compare_suite(plan(sample.plan_text), policy(sample.policy_text), large, NOW)
    assert (suite.verdict, suite.warnings) == (Verdict.PASS, ())


def test_a_control_in_the_baseline_only_is_named() -> None:
    """A baseline that calls a case a control, or no longer does, was accepted from another plan."""
    sample = Sample()
    sample.accepted["grid", "violations"] = BaselineRecord(
        "grid", "violations", 0, "vectors", FIRST, control=True
    )
    assert _is(sample.only(), Verdict.INVALID, Cause.CONTROL_MARK)


def test_transcribed_baselines_are_counted_in_a_warning() -> None:
    """A suite says how many of its baselines nobody ever measured on the lane."""
    sample = Sample()
    assert sample.verdict().warnings == ()
    for key in (("grid", "violations"), ("boot", "bytes")):
        sample.accepted[key] = msgspec.structs.replace(sample.accepted[key], source="table 3")
    (warning,) = sample.verdict().warnings
    assert warning == "2 of 5 baselines are transcribed and were never measured on this lane"


def test_remedies_fit_the_verdict() -> None:
    """Worse asks for mending, better for accepting."""
    sample = Sample()
    sample.measure("boot", "step_ms", 9.0, "ms")
    assert sample.only().remedy.startswith("python -m ci accept")
    sample.measure("boot", "step_ms", 11.0, "ms")
    assert sample.only().remedy.startswith("mend the patch")


def test_a_marked_baseline_is_red_until_it_is_measured_anew() -> None:
    """Every value passes, and still the suite does not; what to run and accept stands in the row."""
    sample = Sample(remeasure=Remeasure("0.27.1", "the pin moved"))
    row = sample.only()
    assert _is(row, Verdict.INVALID, Cause.REMEASURE)
    assert (row.lane, row.suite, row.case, row.metric) == ("cpu", "property", "-", BASELINE_FILE)
    assert row.why == "marked for measuring anew on vllm 0.27.1: the pin moved"
    assert row.remedy == (
        "python -m ci run property --lane cpu, then: "
        "python -m ci accept --lane cpu --suite property --why TEXT"
    )
    assert sample.verdict().exit_code is ExitCode.NO_VERDICT


def test_a_marked_baseline_still_shows_what_a_bound_says() -> None:
    """A value beyond its bound on the new version is a regression, whatever has to be measured anew."""
    sample = Sample(remeasure=Remeasure("0.27.1", "the pin moved"))
    sample.measure("boot", "bytes", 2048, "bytes")
    assert sample.verdict().exit_code is ExitCode.REGRESSED


def test_a_marked_baseline_is_named_without_a_run() -> None:
    """A lane that has not run says that it waits for a run, and on which version."""
    sample = Sample(remeasure=Remeasure("0.28.0", "the pin moved"), has_results=False)
    assert Cause.REMEASURE in {row.cause for row in sample.verdict().rows}
