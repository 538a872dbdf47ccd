"""A run becomes a baseline only where it can be trusted, and only what changed changes."""

from __future__ import annotations

import dataclasses

import pytest

from ci.gate.acceptance import Accepted, AcceptError, Step, accept_suite, new_aa_sessions
from ci.gate.verdict import Verdict
from ci.proof.checkout import boots
from ci.results.folder import RECORDS_FILE, FileProblem
from ci.results.jsonl import encode
from ci.results.records import AaSession, AbSession, Acceptance, Record, Remeasure, Scalar
from tests.gate.samples import FIRST, JUNIT_TEXT, PLAN_TEXT, POLICY_TEXT, Sample, policy

SECOND = Acceptance(date="2026-09-01", by="Bob", why="new pin")


def _accept(sample: Sample, pattern: str = "*") -> Accepted:
    return accept_suite(sample.files(), sample.verdict(), policy(sample.policy_text), pattern, SECOND)


def _by_key(accepted: Accepted) -> dict[tuple[str, str], tuple[object, str]]:
    return {(one.case, one.metric): (one.value, one.accepted.by) for one in accepted.baseline.records}


def test_nothing_to_accept_is_a_no_op() -> None:
    """A run that passes leaves the baseline byte for byte as it was."""
    sample = Sample()
    accepted = _accept(sample)
    old = sample.files().baseline
    assert old is not None
    assert (accepted.changes, accepted.kept) == ((), 5)
    assert encode(accepted.baseline.head, accepted.baseline.records) == encode(old.head, old.records)


def test_an_old_baseline_is_not_even_put_in_order() -> None:
    """Where nothing changes it is the very one that was read, however its records stand."""
    sample = Sample()
    files = sample.files()
    assert files.baseline is not None
    files = dataclasses.replace(
        files, baseline=dataclasses.replace(files.baseline, records=files.baseline.records[::-1])
    )
    accepted = accept_suite(files, sample.verdict(), policy(), "*", SECOND)
    assert accepted.baseline is files.baseline


def test_first_baseline() -> None:
    """Without a baseline every record is added under this acceptance and the run's conditions."""
    accepted = _accept(Sample(has_baseline=False))
    assert {change.step for change in accepted.changes} == {Step.ADDED}
    assert len(accepted.baseline.records) == 5
    assert {one.accepted for one in accepted.baseline.records} == {SECOND}
    assert accepted.baseline.head.conditions == Sample().run_conditions
    assert [one.case for one in accepted.baseline.records if one.control] == ["control-seq-rows"] * 2


def test_changed_value_takes_the_new_acceptance_and_others_keep_theirs() -> None:
    """Only the record that differs says Bob."""
    sample = Sample()
    sample.measure("grid", "violations", 3)
    accepted = _accept(sample)
    ((change),) = accepted.changes
    assert (change.step, change.case, change.metric) == (Step.CHANGED, "grid", "violations")
    assert change.before is not None
    assert change.after is not None
    assert (change.before.value, change.after.value) == (0, 3)
    values = _by_key(accepted)
    assert values.pop(("grid", "violations")) == (3, "Bob")
    assert {by for _, by in values.values()} == {FIRST.by}
    assert accepted.kept == 4
    assert accepted.baseline.head.subject == sample.run_head().subject


def test_noise_within_the_margin_does_not_move_the_baseline() -> None:
    """A value that passes keeps its old number, else a baseline could drift a margin at a time."""
    sample = Sample()
    sample.measure("boot", "step_ms", 10.1, "ms")
    assert _accept(sample).changes == ()


def test_a_whole_set_takes_values_that_pass_too() -> None:
    """After a change of the kernel no value of the old one stays under the new one's head."""
    sample = Sample()
    sample.measure("boot", "step_ms", 10.1, "ms")
    accepted = accept_suite(
        sample.files(), sample.verdict(), policy(sample.policy_text), "*", SECOND, whole=True
    )
    assert {one.accepted for one in accepted.baseline.records} == {SECOND}
    assert _by_key(accepted)["boot", "step_ms"] == (10.1, "Bob")
    assert sorted(change.step.value for change in accepted.changes) == ["changed"] + ["confirmed"] * 4
    assert accepted.kept == 0


def test_improvement_is_taken() -> None:
    """A value better by more than its margin replaces the old one."""
    sample = Sample()
    sample.measure("boot", "step_ms", 9.0, "ms")
    assert _by_key(_accept(sample))["boot", "step_ms"] == (9.0, "Bob")


def test_accepting_twice_changes_nothing_more() -> None:
    """The same run accepted again is a no-op."""
    sample = Sample()
    sample.measure("grid", "violations", 3)
    sample.accepted = {(one.case, one.metric): one for one in _accept(sample).baseline.records}
    assert _accept(sample).changes == ()


def test_pattern_chooses_cases() -> None:
    """Only matching cases change; brackets in a pattern stand for themselves."""
    sample = Sample()
    sample.measure("grid", "violations", 3)
    sample.measure("boot", "bytes", 2048, "bytes")
    values = _by_key(_accept(sample, "gr*"))
    assert values["grid", "violations"] == (3, "Bob")
    assert values["boot", "bytes"] == (1024, "Ada")


def test_pattern_without_match_is_refused() -> None:
    """A mistyped pattern does not look like a success."""
    with pytest.raises(AcceptError, match="no case matches 'gird'"):
        _accept(Sample(), "gird")


def test_new_conditions_are_taken_with_every_record() -> None:
    """Records made incomparable by a new vLLM are accepted anew, the others stay."""
    sample = Sample()
    sample.run_conditions["vllm"] = "0.28.0"
    accepted = _accept(sample)
    assert accepted.baseline.head.conditions["vllm"] == "0.28.0"
    assert sorted((change.case, change.metric) for change in accepted.changes) == [
        ("control-seq-rows", "violations"),
        ("grid", "violations"),
    ]


def test_part_under_other_conditions_is_refused() -> None:
    """One head cannot be true for values of two vLLM versions."""
    sample = Sample()
    sample.run_conditions["vllm"] = "0.28.0"
    with pytest.raises(AcceptError, match="vllm differs") as caught:
        _accept(sample, "grid")
    assert caught.value.remedy == (
        "accept the whole suite: python -m ci accept --lane cpu --suite property --why TEXT"
    )


def test_part_under_conditions_that_do_not_matter_is_taken() -> None:
    """Another torch matters to no rule, so a part may be accepted."""
    sample = Sample()
    sample.run_conditions["torch"] = "2.14.0"
    sample.measure("grid", "violations", 3)
    assert len(_accept(sample, "grid").changes) == 1


def test_orphan_is_removed() -> None:
    """A record that is neither planned nor measured leaves, and the head stays."""
    sample = Sample()
    sample.accept("old", "violations", 0, "vectors")
    accepted = _accept(sample)
    (change,) = accepted.changes
    assert (change.step, change.case, change.after) == (Step.REMOVED, "old", None)
    assert accepted.baseline.head == sample.baseline_head()


def _missing(sample: Sample) -> None:
    del sample.records["grid", "violations"]


def _unread(sample: Sample) -> None:
    sample.measure("grid", "violations", None, reason="why")


def _unplanned(sample: Sample) -> None:
    sample.measure("extra", "violations", 0)


def _green(sample: Sample) -> None:
    sample.measure("control-seq-rows", "red", False, "bool", control=True)


def _red_test(sample: Sample) -> None:
    sample.junit_text = JUNIT_TEXT.replace('time="0.1"/>', "><failure/></testcase>", 1)


def _torn(sample: Sample) -> None:
    sample.has_results = False
    sample.problems = (FileProblem(RECORDS_FILE, False, "torn", None),)


def _stale(sample: Sample) -> None:
    sample.head_run = "r0"


def _marked(sample: Sample) -> None:
    sample.measure("grid", "violations", 0, control=True)


REFUSED = {
    "missing": _missing,
    "unread": _unread,
    "unplanned": _unplanned,
    "control-green": _green,
    "red-test": _red_test,
    "torn": _torn,
    "stale": _stale,
    "wrong-mark": _marked,
}


@pytest.mark.parametrize("name", REFUSED)
def test_untrustworthy_runs_are_refused(name: str) -> None:
    """Each of these runs proves too little to become a baseline."""
    sample = Sample()
    REFUSED[name](sample)
    with pytest.raises(AcceptError, match="cpu/property") as caught:
        _accept(sample)
    assert (caught.value.remedy is None) == (name == "torn")


@pytest.mark.parametrize("name", ["control-green", "red-test", "torn", "stale"])
def test_a_pattern_does_not_get_around_a_bad_run(name: str) -> None:
    """What spoils the whole run spoils every part of it."""
    sample = Sample()
    REFUSED[name](sample)
    with pytest.raises(AcceptError, match="cpu/property"):
        _accept(sample, "boot")


def test_a_pattern_gets_around_a_bad_case() -> None:
    """A missing metric of one case does not keep another from being accepted."""
    sample = Sample()
    _missing(sample)
    sample.measure("boot", "bytes", 2048, "bytes")
    assert _by_key(_accept(sample, "boot"))["grid", "violations"] == (0, "Ada")


def test_only_new_sessions_of_an_arm_against_itself_are_noise() -> None:
    """A session counts once, with equal arms, in the planned order, of a case that was asked for."""
    order, values = "ABBA", (1.0, 2.0, 3.0, 4.0)
    own, other = ("patched", "patched"), ("stock", "patched")
    sessions = (
        AbSession("new", own, order, values),
        AbSession("known", own, order, values),
        AbSession("two arms", other, order, values),
        AbSession("wrong order", own, "ABAB", values),
    )
    sample = Sample()
    sample.records["boot", "step_ms"] = Record("boot", "step_ms", 10.0, "ms", sessions=sessions)
    known = AaSession(1, "property", "boot", "step_ms", "ms", sessions[1], {}, SECOND)
    sample.aa = (known,)
    (found,) = new_aa_sessions(sample.files(), "b*", SECOND)
    assert (found.session.run, found.case, found.metric, found.unit) == ("new", "boot", "step_ms", "ms")
    assert (found.suite, found.conditions, found.accepted) == ("property", sample.run_conditions, SECOND)
    assert new_aa_sessions(sample.files(), "grid", SECOND) == ()
    sample.has_results = False
    assert new_aa_sessions(sample.files(), "*", SECOND) == ()


LIMITED = (
    POLICY_TEXT
    + """
[[rule]]
match = "property/limits/above"
kind = "at-most"
limit = 5
origin = "sample"

[[rule]]
match = "property/limits/below"
kind = "at-least"
limit = 5
origin = "sample"

[[rule]]
match = "property/limits/share"
kind = "relative"
direction = "neither"
margin = 0.02
origin = "sample"

[[rule]]
match = "property/limits/speed"
kind = "ab"
direction = "lower-is-better"
margin = 0.005
pairs = 8
origin = "sample"
"""
)


def _limited(metric: str, value: Scalar, *sessions: AbSession) -> Sample:
    planned = PLAN_TEXT + f'\n[[suite.case]]\nnames = ["limits"]\nmetrics = ["{metric}"]\n'
    sample = Sample(policy_text=LIMITED, plan_text=planned)
    sample.records["limits", metric] = Record("limits", metric, value, "ms", sessions=sessions)
    return sample


@pytest.mark.parametrize(
    ("metric", "value", "why"),
    [
        ("above", 5.5, "5.5 ms would be regressed against itself: above the limit 5"),
        ("below", 4.5, "4.5 ms would be regressed against itself: below the limit 5"),
        ("share", "text", "text ms would be invalid against itself: relative compares numbers, this is str"),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_what_no_baseline_can_make_pass_is_refused(metric: str, value: Scalar, why: str, known: bool) -> None:
    """A limit of the policy stands whatever was accepted, even if it is the very same value."""
    sample = _limited(metric, value)
    if known:
        sample.accept("limits", metric, value, "ms")
    with pytest.raises(AcceptError) as caught:
        _accept(sample, "limits")
    assert caught.value.what == f"cpu/property limits {metric}: {why}"
    assert caught.value.cause is not None
    assert caught.value.cause.startswith(f"policy.toml: rule {5 + LIMITS.index(metric)} ")
    assert caught.value.remedy is not None
    assert "policy" in caught.value.remedy
    assert _accept(sample, "grid").changes == ()


LIMITS = ("above", "below", "share", "speed")
"""Rules 5 to 8, behind the four of the sample."""


@pytest.mark.parametrize("metric", ["above", "below"])
def test_a_value_at_its_limit_is_taken(metric: str) -> None:
    """The edge passes, so it may become a baseline."""
    assert _by_key(_accept(_limited(metric, 5)))["limits", metric] == (5, "Bob")


def test_a_slower_arm_cannot_be_accepted() -> None:
    """No baseline plays a part between two arms; a comparison that is not settled may be stored."""
    slow = [boots(0.03, run) for run in ("r0", "r1")]
    with pytest.raises(AcceptError, match="limits speed is regressed, and accepting it cannot") as caught:
        _accept(_limited("speed", 10.0, *slow))
    assert caught.value.remedy is not None
    assert "policy.toml: rule 8 property/limits/speed ab 0.005" in caught.value.remedy
    with pytest.raises(AcceptError, match="limits speed came out worse, and a fresh session has to"):
        _accept(_limited("speed", 10.0, slow[0]))
    open_ = _limited("speed", 10.0, boots(0.004, "r1", noise=0.003))
    assert _by_key(_accept(open_))["limits", "speed"] == (10.0, "Bob")


def test_arms_the_other_way_round_are_refused() -> None:
    """What was measured of another arm is no value of this one's baseline, not even its first."""
    swapped = _limited("speed", 10.0, boots(0.0, "r0", arms=("patched", "stock")))
    words = "limits speed: the arms are not those of the run: arm B is stock, but the run is about patched"
    with pytest.raises(AcceptError, match=words) as caught:
        _accept(swapped, "limits")
    assert caught.value.remedy == "measure the arms the other way round"


def test_a_comparison_that_passes_is_stored_once() -> None:
    """Two arms can pass without a baseline: the first value is added, a later one does not move it."""
    sample = _limited("speed", 10.0, boots(0.0, "r0"))
    assert {row.verdict for row in sample.verdict().rows if row.case == "limits"} == {Verdict.PASS}
    assert _by_key(_accept(sample, "limits"))["limits", "speed"] == (10.0, "Bob")
    sample.accept("limits", "speed", 10.2, "ms")
    assert _accept(sample, "limits").changes == ()


MOVED = Remeasure("0.28.0", "the pin moved")


def _moved() -> Sample:
    sample = Sample(remeasure=MOVED)
    sample.run_conditions["vllm"] = "0.28.0"
    return sample


def test_a_run_on_the_new_pin_takes_the_mark_away() -> None:
    """Every value is of this run and this acceptance, those included that did not change."""
    accepted = _accept(_moved())
    assert accepted.baseline.head.remeasure is None
    assert accepted.baseline.head.conditions["vllm"] == "0.28.0"
    assert {one.accepted for one in accepted.baseline.records} == {SECOND}
    assert (len(accepted.baseline.records), accepted.kept) == (5, 0)


@pytest.mark.parametrize(
    ("measured", "named"), [("0.27.1", "of 0.27.1"), (None, "of a version it does not name")]
)
def test_a_run_on_another_version_does_not_take_the_mark_away(measured: str | None, named: str) -> None:
    """A run from before the move would pass for one after it."""
    sample = _moved()
    sample.run_conditions["vllm"] = measured
    with pytest.raises(AcceptError, match=r"measured anew on vllm 0\.28\.0") as caught:
        _accept(sample)
    assert named in caught.value.what
    assert (caught.value.cause, caught.value.remedy) == (
        "the pin moved",
        "python -m ci run property --lane cpu",
    )


def test_a_part_does_not_take_the_mark_away() -> None:
    """What stays was measured on the old version."""
    with pytest.raises(AcceptError, match=r"would stay.*never measured on vllm 0\.28\.0") as caught:
        _accept(_moved(), "grid")
    assert caught.value.cause == "the pin moved"
    assert caught.value.remedy == (
        "accept the whole suite: python -m ci accept --lane cpu --suite property --why TEXT"
    )


def test_the_mark_stays_where_nothing_was_taken() -> None:
    """Dropping what is planned no more is no measurement."""
    sample = _moved()
    sample.accept("old", "gone", 1, "vectors")
    accepted = _accept(sample, "old")
    assert [change.step for change in accepted.changes] == [Step.REMOVED]
    assert accepted.baseline.head.remeasure == MOVED
