"""The verdict on what two arms said, and the records of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci.gate.policy import parse_policy
from ci.gate.quality import ALPHA, WORST
from ci.gate.quality_records import NOTHING_LEFT, judge, mismatch, ratios, records_of, unscored
from ci.gate.verdict import Verdict
from ci.results.quality import ArmScores, Talk, TextScore
from ci.results.throughput import Number

POLICY_FILE = Path(__file__).parents[3] / "baselines" / "policy.toml"
POLICY = parse_policy(POLICY_FILE.read_text(encoding="utf-8"), POLICY_FILE)
"""The project's own: a session and the suite have one set of bounds."""


def scores(**changed: Any) -> ArmScores:
    """An arm's answers."""
    fields: dict[str, Any] = {
        "key": "k",
        "arm": "a",
        "problems": (),
        "maths": {str(item): item % 20 != 0 for item in range(200)},
        "mean_tokens": Number(381.0),
        "texts": {"en": [TextScore(-2.1 * 100, 100)], "da": [TextScore(-2.2 * 50, 50)]},
        "talks": {"mission": Talk(60, 58, 0, 0)},
    }
    return ArmScores(**(fields | changed))


def test_published_quality_passes() -> None:
    """The published difference of the captured path: two items and a hundredth of a percent say nothing."""
    worse = scores(maths={str(item): item % 20 != 0 and item not in (1, 2) for item in range(200)})
    verdict, words = judge(scores(), worse, POLICY)
    assert verdict is Verdict.PASS
    assert words.startswith("2 items lost, 0 won of 200, p 0.250; would have seen a loss of")
    near = scores(texts={"en": [TextScore(-2.1001 * 100, 100)], "da": [TextScore(-2.2 * 50, 50)]})
    assert ratios(scores(), near)["en"] == pytest.approx(math.exp(0.0001))
    assert judge(scores(), near, POLICY)[0] is Verdict.PASS


def test_the_level_is_the_policy_s() -> None:
    """What a session could have seen is computed for the test that judges it."""
    rule = POLICY.rule_for("quality", "gsm8k", "p_loss")
    assert rule is not None
    assert rule.limit == ALPHA


def test_records() -> None:
    """Each number has its unit; texts count by their tokens, and the arms stand beside each other."""
    found = {
        (one.case, one.metric): one.value for one in records_of(scores(), scores(mean_tokens=Number(375.0)))
    }
    assert found["gsm8k", "items"] == 200
    assert found["gsm8k", "accuracy_b"] == 0.95
    assert found["gsm8k", "mean_tokens_a"] == 381.0
    assert found["gsm8k", "mean_tokens_b"] == 375.0
    assert found["perplexity-all", "ratio"] == 1.0
    assert found["perplexity-all", "perplexity"] == pytest.approx(math.exp(320 / 150))
    assert found["tools-mission", "right_b"] == 58
    assert found["tools-mission", "more_loops"] == found["tools-mission", "more_truncated"] == 0


def test_invalid_boot_has_no_numbers() -> None:
    """Where one arm cannot be compared there is one record, without a value and with the reason."""
    (record,) = records_of(scores(), scores(problems=("out of memory",)))
    assert record.value is None
    assert record.reason == "the session is invalid: out of memory"


def lost(items: int) -> dict[str, bool]:
    """The answers with so many right ones made wrong."""
    good = [item for item, right in scores().maths.items() if right][:items]
    return scores().maths | dict.fromkeys(good, False)


@pytest.mark.parametrize(("items", "verdict"), [(4, Verdict.PASS), (5, Verdict.REGRESSED)])
def test_lost_items(items: int, verdict: Verdict) -> None:
    """Five lost of five that differ come by chance in 3% of cases, four in 6%."""
    got, words = judge(scores(), scores(maths=lost(items)), POLICY)
    assert got is verdict
    assert words.startswith(f"{items} items lost, 0 won of 200")
    assert words.endswith("; out of bounds: gsm8k p_loss") is (verdict is Verdict.REGRESSED)


@pytest.mark.parametrize(("worse", "verdict"), [(0.0049, Verdict.PASS), (0.0051, Verdict.REGRESSED)])
def test_worse_split(worse: float, verdict: Verdict) -> None:
    """One split over the bound of half a percent is enough, also where all together are within."""
    texts = {"en": [TextScore(-2.1 * 100, 100)], "da": [TextScore(-(2.2 + math.log1p(worse)) * 50, 50)]}
    got, words = judge(scores(), scores(texts=texts), POLICY)
    assert got is verdict
    assert words.endswith("; out of bounds: perplexity-da ratio") is (verdict is Verdict.REGRESSED)


@pytest.mark.parametrize(
    ("ours", "metric"), [(Talk(60, 58, 3, 2), "loops"), (Talk(60, 58, 2, 3), "truncated")]
)
def test_loop_or_cut(ours: Talk, metric: str) -> None:
    """A single completion more that loops, or that was cut, is a regression."""
    subject = scores(talks={"mission": ours})
    for theirs in (Talk(60, 58, 2, 2), Talk(60, 58, 0, 2), Talk(60, 58, 2, 0)):
        got, words = judge(scores(talks={"mission": theirs}), subject, POLICY)
        assert got is Verdict.REGRESSED
        assert f"tools-mission more_{metric}" in words.split("out of bounds: ")[1]


@pytest.mark.parametrize("loops", [0, 5])
def test_the_reference_loops(loops: int) -> None:
    """Where the reference loops or is cut as often, that is no regression, and it is said."""
    first, second = (scores(talks={"mission": Talk(60, 58, count, 1)}) for count in (5, loops))
    verdict, words = judge(first, second, POLICY)
    assert verdict is Verdict.PASS
    assert words.endswith("; the reference itself: tools-mission loops_a 5, tools-mission truncated_a 1")
    found = {one.metric: one.value for one in records_of(first, second)}
    assert (found["loops_a"], found["loops_b"], found["more_loops"]) == (5, loops, loops - 5)
    assert "the reference itself" not in judge(scores(), second, POLICY)[1]


@pytest.mark.parametrize("fault", ["loops", "truncated"])
@pytest.mark.parametrize(
    ("theirs", "ours", "verdict", "more"),
    [
        (30, 30, Verdict.PASS, 0),
        (31, 31, Verdict.INCONCLUSIVE, None),
        (31, 0, Verdict.INCONCLUSIVE, None),
        (59, 59, Verdict.INCONCLUSIVE, None),
        (60, 60, Verdict.INCONCLUSIVE, None),
        (59, 60, Verdict.REGRESSED, 1),
    ],
)
def test_the_reference_is_no_reference(
    fault: str, theirs: int, ours: int, verdict: Verdict, more: int | None
) -> None:
    """Where most completions of the reference loop or are cut, no worse conversations are no pass."""
    first, second = (
        scores(talks={"mission": replace(Talk(60, 58, 0, 0), **{fault: count})}) for count in (theirs, ours)
    )
    got, words = judge(first, second, POLICY)
    assert got is verdict
    assert words.endswith(f"{NOTHING_LEFT}: tools-mission more_{fault}") is (more is None)
    (record,) = (one for one in records_of(first, second) if one.metric == f"more_{fault}")
    assert (record.value, record.reason) == (more, NOTHING_LEFT if more is None else None)


def test_answers_without_text() -> None:
    """Those of the subject are named: each is a wrong answer, and requests that failed may be among them."""
    verdict, words = judge(scores(), scores(maths=lost(5), silent=5), POLICY)
    assert verdict is Verdict.REGRESSED
    assert "; 5 of 200 answers of B have no text; out of bounds: gsm8k p_loss" in words
    assert "no text" not in judge(scores(), scores(), POLICY)[1]


def test_too_few_items() -> None:
    """So few items that no loss of any size could have been seen say so, with the reason."""
    few = scores(maths={"1": True, "2": False})
    verdict, words = judge(few, few, POLICY)
    assert verdict is Verdict.INCONCLUSIVE
    assert words.endswith("seen no loss at all; ask more items, or such as the reference gets right")
    looping = scores(maths=few.maths, talks={"mission": Talk(60, 58, 1, 0)})
    assert judge(few, looping, POLICY)[0] is Verdict.REGRESSED
    found = {one.metric: one for one in records_of(few, few) if one.case == "gsm8k"}
    assert found["detectable_loss"].value is None
    assert found["detectable_loss"].reason == "so few items or right answers show no loss of any size"
    assert {one.metric: one.reason for one in records_of(scores(), scores())}["detectable_loss"] is None


def test_nothing_right() -> None:
    """Where the reference has nothing right, equal answers are no pass."""
    none = scores(maths=dict.fromkeys(scores().maths, False))
    verdict, words = judge(none, none, POLICY)
    assert (verdict, "seen no loss at all" in words) == (Verdict.INCONCLUSIVE, True)


def test_mismatch() -> None:
    """Other word problems, or other tokens of a text, cannot be compared."""
    assert mismatch(scores(), scores(mean_tokens=Number(1.0))) is None
    assert mismatch(scores(), scores(maths={"1": True})) == (
        "answer different word problems",
        "their source changed between the two boots",
    )
    other = scores(texts=scores().texts | {"da": [TextScore(-2.2 * 50, 51)]})
    assert (mismatch(scores(), other) or ("",))[0] == "count different tokens of text da"


@pytest.mark.parametrize("score", [None, 0.0, -0.0])
def test_broken_scores(score: float | None) -> None:
    """A split with a part unscored is out of bounds in numbers that can be recorded, and no reference."""
    broken = scores(texts={"en": scores().texts["en"], "da": [TextScore(-110.0, 49), TextScore(score, 1)]})
    assert (unscored(scores()), unscored(broken)) == ([], ["da"])
    verdict, words = judge(scores(), broken, POLICY)
    assert verdict is Verdict.REGRESSED
    assert words.endswith("; out of bounds: perplexity-da ratio, perplexity-all ratio")
    values = {(one.case, one.metric): one.value for one in records_of(scores(), broken)}
    assert values["perplexity-da", "perplexity"] == WORST
    assert isinstance(ratio := values["perplexity-da", "ratio"], float)
    assert 1e298 < ratio < WORST


def test_no_texts() -> None:
    """Without texts there is no perplexity to compare."""
    bare = scores(texts={})
    assert ratios(bare, bare) == {}
