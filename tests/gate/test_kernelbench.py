"""What of kernelbench needs no card: its table, its arithmetic, and the processes that it times beside it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.commands.review import Rules, load_rules
from ci.gate.plan import RED
from ci.gate.policy import Kind as RuleKind
from tests.armlib.bounds import bound_of, margin_of
from tests.armlib.children import Child, ChildError
from tests.kernelbench.cases import (
    CASES,
    COMPARED_TWICE,
    CONTROLS,
    DONE_TWICE,
    METRICS,
    REPEATS,
    SHORT_REPEATS,
    CacheKey,
    Case,
    Kind,
    Shape,
    cache_lengths,
)
from tests.kernelbench.comparison import (
    Figure,
    Leg,
    Opponents,
    Seen,
    Timed,
    figures,
    mirrored,
    opponents,
    ratio_seen,
    time_seen,
)

ROOT = Path(__file__).parents[2]
SPEEDUPS = ("speedup_mq3d", "speedup_stock")
CASE = Case("call-24576", Kind.CALL, 8, 24576)
PREFILL = Case("prefill-512-0", Kind.PREFILL, 512, 0)
OWN = Leg(Timed(99.0, 101.0), "3D")
MQ3D = Leg(Timed(500.0, 500.0), "3D")
STOCK = Leg(Timed(3000.0, 3000.0), "2D")
CENTRED = Leg(Timed(400.0, 400.0), "3D")


@pytest.fixture(scope="module")
def rules() -> Rules:
    """The repository's own plan and policy."""
    return load_rules(ROOT / "baselines")


def test_every_case_is_planned_with_its_metrics(rules: Rules) -> None:
    """The table and the plan name the same cases and metrics, on every lane of the suite."""
    for lane in ("h200", "rtx3090", "rtx4090"):
        planned = {
            (one.case, one.metric)
            for one in rules.plan.metrics(lane, "kernelbench")
            if not one.control and one.case not in ("copy", "passes")
        }
        assert planned == {(case.name, metric) for case in CASES for metric in METRICS[case.kind]}


def test_controls_are_planned(rules: Rules) -> None:
    """Both controls carry the number that turned red."""
    controls = {(one.case, one.metric) for one in rules.plan.metrics("h200", "kernelbench") if one.control}
    assert controls == {
        ("control-done-twice", "us_3d"),
        ("control-done-twice", RED),
        ("control-compared-twice", "ratio_to_before"),
        ("control-compared-twice", RED),
    }
    assert controls == {(one.name, metric) for one in CONTROLS for metric in (one.metric, RED)}


def test_the_policy_holds_exactly_the_judged_cases_to_the_arm_before(rules: Rules) -> None:
    """Prefills and contexts under 1k have a bound, and it is 2%; on long contexts speed is another rule's."""
    limits = {
        case.name: rule.limit
        for case in CASES
        if (rule := rules.policy.rule_for("kernelbench", case.name, "ratio_to_before"))
    }
    assert limits == {case.name: 1.02 if case.judged else None for case in CASES}


def test_controls_are_held_to_the_numbers_of_the_policy(rules: Rules) -> None:
    """Each control has a case of the table, and the number by which that case itself is judged."""
    assert {one.case for one in CONTROLS} <= {case.name for case in CASES}
    assert margin_of("kernelbench", DONE_TWICE.case, DONE_TWICE.metric) == 0.05
    assert bound_of("kernelbench", COMPARED_TWICE.case, COMPARED_TWICE.metric) == 1.02
    for one in CONTROLS:
        own = rules.policy.rule_for("kernelbench", one.name, one.metric)
        assert own is not None
        assert own.kind is RuleKind.INFO, "a control's number is shown; what is judged is that it was red"


def test_a_metric_without_the_number_asked_for_is_an_error() -> None:
    """A control never compares with nothing."""
    with pytest.raises(AssertionError, match="us_3d has no bound"):
        bound_of("kernelbench", "call-90112", "us_3d")
    with pytest.raises(AssertionError, match="ratio_to_before has no margin"):
        margin_of("kernelbench", "short-8-512", "ratio_to_before")


@pytest.mark.parametrize(("us", "red"), [(104.0, False), (106.0, True), (200.0, True)])
def test_a_time_is_seen_to_leave_its_margin(us: float, red: bool) -> None:
    """Red once the doubled call is slower by more than the margin; its own time is what is recorded."""
    assert time_seen(Timed(99.0, 101.0), Timed(us - 1, us + 1), 0.05) == Seen(us, red)


@pytest.mark.parametrize(("us", "red"), [(101.0, False), (103.0, True), (200.0, True)])
def test_a_ratio_is_seen_to_exceed_its_bound(us: float, red: bool) -> None:
    """Red once the doubled call exceeds the bound beside the single one, whatever the arm before takes."""
    assert ratio_seen(Timed(99.0, 101.0), Timed(us - 1, us + 1), 1.02) == Seen(us / 100, red)


def test_the_policy_holds_the_series_to_its_goals(rules: Rules) -> None:
    """Speed-ups have a lower limit where there is a goal, and are shown elsewhere."""
    limits = {
        (case.name, metric): rule.limit
        for case in CASES
        for metric in SPEEDUPS
        if (rule := rules.policy.rule_for("kernelbench", case.name, metric))
        and rule.kind is RuleKind.AT_LEAST
    }
    kept = {(case.name, metric): 0.98 for case in CASES if case.judged for metric in SPEEDUPS}
    assert limits == kept | {
        ("call-24576", "speedup_mq3d"): 4,
        ("call-90112", "speedup_mq3d"): 8,
        ("tokens-1-24576", "speedup_stock"): 2,
        ("tokens-1-90112", "speedup_stock"): 2,
    }


def test_the_table_spans_what_it_should() -> None:
    """1 to 16 tokens, 1 to 32 sequences, contexts of 64 to 90,112, three head sizes, four head ratios."""
    verify = [case for case in CASES if case.kind is not Kind.PREFILL]
    assert {case.tokens for case in verify} == {1, 2, 4, 8, 16}
    assert {case.seqs for case in verify} == {1, 4, 8, 32}
    assert {case.shape.head_size for case in verify} == {64, 128, 256}
    assert {case.shape.heads_q // case.shape.heads_kv for case in verify} == {1, 4, 6, 8}
    assert (min(case.context for case in verify), max(case.context for case in verify)) == (64, 90112)
    assert len({case.name for case in CASES}) == len(CASES)


def test_names_of_the_first_records_keep_their_meaning() -> None:
    """The cases that have accepted records are still 8 tokens of one sequence, read as many bytes as then."""
    known = {"call-24576": 25960704, "call-49152": 51912960, "call-90112": 95166720}
    assert {case.name: case.bytes_read for case in CASES if case.name in known} == known


def test_bytes_of_several_sequences() -> None:
    """Every sequence is read once: nibbles of keys and values, and a scale of four bytes for each."""
    case = Case("x", Kind.VERIFY, tokens=2, context=98, seqs=3, shape=Shape(8, 2, 64))
    assert case.bytes_read == 3 * 100 * 2 * 2 * (32 + 4)


def test_only_short_calls_are_replayed_longer() -> None:
    """A few microseconds that are judged to 2% need more replays; a prefill of milliseconds does not."""
    repeats = {case.name: case.repeats for case in CASES}
    assert repeats["short-1-64"] == SHORT_REPEATS
    assert repeats["call-90112"] == repeats["prefill-2048-4096"] == REPEATS


def test_one_cache_serves_every_batch_of_its_shape() -> None:
    """The cache is as long as the longest batch that lies in it; other heads or sequences have their own."""
    other = Case("x", Kind.VERIFY, 8, 100, seqs=4)
    assert cache_lengths([CASE, PREFILL, other]) == {
        CacheKey(Shape(), 1): 24584,
        CacheKey(Shape(), 4): 108,
    }


@pytest.mark.parametrize(
    ("arms", "expected"),
    [
        (["stock", "mq3d", "token-units", "patched", "centred"], (("mq3d", "stock", "patched"), "patched")),
        (["stock", "mq3d", "token-units"], (("mq3d", "stock"), "mq3d")),
        (["stock", "mq3d"], (("mq3d", "stock"), "stock")),
        (["stock"], (("stock",), None)),
        (["installed"], ((), None)),
    ],
)
def test_opponents(arms: list[str], expected: tuple[tuple[str, ...], str | None]) -> None:
    """mq3d and stock wherever the series has them, and the arm before, each once."""
    assert opponents(arms) == Opponents(*expected)


def test_passes_go_there_and_back() -> None:
    """Every arm has two passes at the same mean place, so that a steady drift falls on all alike."""
    order = mirrored(("a", "b", "c"))
    assert order == ("a", "b", "c", "c", "b", "a")
    assert {sum(at for at, name in enumerate(order) if name == one) for one in "abc"} == {5}


def by_metric(found: Iterator[Figure]) -> dict[str, Figure]:
    """Figures by their metric, each there once."""
    figures = list(found)
    named = {one.metric: one for one in figures}
    assert len(named) == len(figures)
    return named


def test_figures_of_a_call() -> None:
    """Times are means of both passes; speed-ups divide another arm's time by ours, the ratio the reverse."""
    others = {"mq3d": MQ3D, "stock": STOCK, "centred": CENTRED}
    found = by_metric(figures(CASE, OWN, Timed(3300.0, 3300.0), others, "centred", 4e12))
    assert found.keys() == set(METRICS[Kind.CALL])
    values = {metric: one.value for metric, one in found.items()}
    assert values == {
        "path": "3D",
        "us_3d": 100.0,
        "spread": pytest.approx(0.02),
        "us_2d": 3300.0,
        "speedup_3d": 33.0,
        "bytes_read": 25960704,
        "floor_us": pytest.approx(6.490176),
        "ratio_to_floor_3d": pytest.approx(15.40790),
        "us_mq3d": 500.0,
        "speedup_mq3d": 5.0,
        "path_mq3d": "3D",
        "us_stock": 3000.0,
        "speedup_stock": 30.0,
        "path_stock": "2D",
        "ratio_to_before": 0.25,
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_gives_what_is_planned(case: Case) -> None:
    """No planned metric is left out, and none comes unplanned."""
    off = STOCK.timed if case.kind is Kind.CALL else None
    found = by_metric(figures(case, OWN, off, {"mq3d": MQ3D, "stock": STOCK}, "mq3d", 4e12))
    assert found.keys() == set(METRICS[case.kind])
    assert all(one.value is not None for one in found.values())


def test_an_arm_that_is_not_there_is_a_reason_and_not_a_number() -> None:
    """On the first arm there is nothing to compare with, and the record says so."""
    found = by_metric(figures(PREFILL, STOCK, None, {"stock": STOCK}, None, 4e12))
    assert found["us_2d"].value == 3000.0
    assert found["speedup_stock"].value == 1.0
    missing = {metric: one.reason for metric, one in found.items() if one.value is None}
    assert missing == {
        "us_mq3d": "the series has no arm mq3d up to the one under test",
        "speedup_mq3d": "the series has no arm mq3d up to the one under test",
        "path_mq3d": "the series has no arm mq3d up to the one under test",
        "ratio_to_before": "no arm comes before the one under test",
    }


CHILD = """\
import os, sys, time
print("a log line among the imports")
os.system("echo a line of a grandchild")
from armlib.children import serve
def slow(): time.sleep(60)
def fails(): raise ValueError("no such kernel")
serve({"ready": True}, {"time": lambda: [1.5], "slow": slow, "fails": fails, "leave": lambda: sys.exit(3)})
"""


def child(tmp_path: Path, script: str = CHILD, seconds: float = 30.0) -> Child:
    """A child that runs `script`."""
    path = tmp_path / "child.py"
    path.write_text(script, encoding="utf-8")
    import_path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return Child([str(path)], os.environ | {"PYTHONPATH": import_path}, seconds)


def test_a_child_answers_in_turns(tmp_path: Path) -> None:
    """Its first answer comes by itself, the others when they are asked for, whatever else is printed."""
    with child(tmp_path) as one:
        assert one.answer() == {"ready": True}
        assert [one.ask("time") for _ in range(3)] == [[1.5]] * 3
    assert one.process.returncode is not None


@pytest.mark.parametrize(
    ("question", "said"),
    [("fails", "ValueError: no such kernel"), ("leave", "status 3"), ("what", "KeyError")],
)
def test_a_child_that_ends_is_an_error_with_its_last_words(tmp_path: Path, question: str, said: str) -> None:
    """What a child printed before it died is in the error; nothing is taken for an answer."""
    with child(tmp_path) as one:
        one.answer()
        with pytest.raises(ChildError, match=said):
            one.ask(question)
        with pytest.raises(ChildError, match="ended with status") as caught:
            one.ask("time")
        assert "within" not in str(caught.value), "it died by itself, long before its time was up"


def test_a_child_that_never_gets_ready_is_an_error(tmp_path: Path) -> None:
    """An import that fails is said, not waited for."""
    with (
        child(tmp_path, "import no_such_module_of_ours\n") as one,
        pytest.raises(ChildError, match="no_such"),
    ):
        one.answer()


def test_a_child_that_hangs_is_ended(tmp_path: Path) -> None:
    """An answer that takes too long ends the child, so that a session cannot hang."""
    with child(tmp_path, seconds=2.0) as one:
        one.answer()
        begin = time.monotonic()
        with pytest.raises(ChildError, match="gave no answer within 2 s") as caught:
            one.ask("slow")
        assert "status" not in str(caught.value), "the status would be that of our own signal"
        assert time.monotonic() - begin < 30


def test_a_child_ends_with_its_block(tmp_path: Path) -> None:
    """A test that fails in between leaves no process behind."""
    one = child(tmp_path)
    with contextlib.suppress(KeyboardInterrupt), one:
        assert one.answer() == {"ready": True}
        raise KeyboardInterrupt
    assert one.process.poll() is not None
