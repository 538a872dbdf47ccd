"""The verdict on what two arms said, and the records of it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ci.gate.quality_records import judge, ratios, records_of
from ci.gate.verdict import Verdict
from ci.results.quality import ArmScores, Talk, TextScore
from ci.results.throughput import Number


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
    verdict, words = judge(scores(), worse)
    assert verdict is Verdict.PASS
    assert words.startswith("2 items lost, 0 won of 200, p 0.250; would have seen a loss of")
    near = scores(texts={"en": [TextScore(-2.1001 * 100, 100)], "da": [TextScore(-2.2 * 50, 50)]})
    assert ratios(scores(), near)["en"] == pytest.approx(math.exp(0.0001))
    assert judge(scores(), near)[0] is Verdict.PASS


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


def test_invalid_boot_has_no_numbers() -> None:
    """Where one arm cannot be compared there is one record, without a value and with the reason."""
    (record,) = records_of(scores(), scores(problems=("out of memory",)))
    assert record.value is None
    assert record.reason == "the session is invalid: out of memory"
