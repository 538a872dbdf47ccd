"""What the arms of this lane answer, compared item by item, and faults in answers that must be noticed."""

from __future__ import annotations

from typing import Any

import pytest
from armlib.boots import LANE, arms, gpu_of, refuse
from msgspec.structs import replace

from ci.commands import review
from ci.commands.quality import Quality, quality_folder
from ci.commands.throughput_session import Throughput
from ci.engine.profile import load_profile
from ci.gate.quality import repeats
from ci.gate.quality_records import judge, records_of
from ci.gate.verdict import Verdict
from ci.results.quality import ArmScores, TextScore

PROFILES = {"rtx3090": "rtx3090-captured", "rtx4090": "rtx4090-steps"}
LOST = 20
"""Items that the control loses."""
POLICY = review.load_rules(review.default_baselines()).policy


@pytest.fixture(scope="session")
def scores(request: pytest.FixtureRequest) -> tuple[ArmScores, ArmScores]:
    """Both arms' answers, kept between runs of equal conditions."""
    profile = load_profile(PROFILES[LANE])
    with gpu_of("quality"):
        built = arms()
        one = Quality(Throughput(profile, LANE, built, quality_folder(profile, LANE, built)))
        return one.scores(fresh=request.config.getoption("--fresh"))


def test_answers(measure: Any, scores: tuple[ArmScores, ArmScores]) -> None:
    """Both boots may be compared; what they answered is on record."""
    for record in records_of(*scores):
        measure(record.case, record.metric, record.value, unit=record.unit, reason=record.reason)
    check(scores)


def check(scores: tuple[ArmScores, ArmScores]) -> None:
    """Refuse answers that must not be compared, or that show nothing."""
    problems = [problem for one in scores for problem in one.problems]
    if not problems:
        verdict, why = judge(*scores, POLICY)
        problems = [why] if verdict is Verdict.INCONCLUSIVE else []
    refuse(problems, remedy="mend it, then ask both arms again: nox -s quality -- --fresh")


@pytest.fixture
def comparable(scores: tuple[ArmScores, ArmScores]) -> tuple[ArmScores, ArmScores]:
    """Answers that may be compared, to a reference that is one: nothing can be shown on others."""
    check(scores)
    check((scores[0], scores[0]))
    return scores


def test_lost_items_are_seen(measure: Any, comparable: tuple[ArmScores, ArmScores]) -> None:
    """The reference against itself with 20 right answers made wrong is called worse."""
    reference = comparable[0]
    right = [item for item, good in sorted(reference.maths.items()) if good][:LOST]
    red = judge(reference, replace(reference, maths=reference.maths | dict.fromkeys(right, False)), POLICY)[0]
    green = judge(reference, replace(reference, talks={}), POLICY)[0]
    assert green is Verdict.PASS
    measure.control("control-lost-items", red=red is Verdict.REGRESSED)
    assert red is Verdict.REGRESSED


def test_worse_text_is_seen(measure: Any, comparable: tuple[ArmScores, ArmScores]) -> None:
    """A perplexity that is 1% higher is outside of the bound."""
    reference = comparable[0]
    texts = {
        name: [TextScore(one.log_likelihood - 0.01 * one.tokens, one.tokens) for one in its]
        for name, its in reference.texts.items()
    }
    verdict, why = judge(reference, replace(reference, texts=texts, talks={}), POLICY)
    red = verdict is Verdict.REGRESSED and all(f"perplexity-{name} ratio" in why for name in texts)
    measure.control("control-worse-text", red=red)
    assert red, why


def test_loop_is_seen(measure: Any) -> None:
    """A text that repeats a sentence is a loop, one that does not is none."""
    sentence = "I will look at the gauge now. "
    red = repeats(sentence * 6) and not repeats(sentence + "Then I will close the valve.")
    measure.control("control-loop", red=red)
    assert red
