"""The paired exact test, what it could have seen, perplexity, and loops in a text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.gate.quality import (
    WORST,
    Paired,
    Scored,
    binomial,
    critical,
    detectable_loss,
    pair,
    perplexity,
    power,
    repeats,
    upper_tail,
)


def answers(right: int, items: int = 200) -> dict[str, bool]:
    """The first so many right."""
    return {str(item): item < right for item in range(items)}


def test_pair() -> None:
    """Items are compared one by one: equal scores may differ in many items."""
    a = {"1": True, "2": True, "3": False, "4": False}
    b = {"1": True, "2": False, "3": True, "4": False}
    assert pair(a, b) == Paired(items=4, right_a=2, right_b=2, only_a=1, only_b=1)


def test_published_scores_cannot_be_told_apart() -> None:
    """189 and 191 of 200: even if only two items differ, p is 0.25 one-sided for a gain of two."""
    found = pair(answers(191), answers(189))
    assert (found.accuracy_a, found.accuracy_b) == (0.955, 0.945)
    assert (found.only_a, found.only_b) == (2, 0)
    assert found.p_loss == pytest.approx(0.25)
    assert found.p_two_sided == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("only_a", "only_b", "two_sided"),
    [(0, 0, 1.0), (5, 0, 0.0625), (6, 0, 0.03125), (10, 2, 0.03857421875), (8, 8, 1.0), (1, 9, 0.021484375)],
)
def test_mcnemar(only_a: int, only_b: int, two_sided: float) -> None:
    """The values of the exact test, which are sums of binomial coefficients over powers of two."""
    found = Paired(200, 100 + only_a, 100 + only_b, only_a, only_b)
    assert found.p_two_sided == pytest.approx(two_sided)


def test_loss_is_one_sided() -> None:
    """A gain is no loss, however clear."""
    assert Paired(200, 100, 120, 0, 20).p_loss == pytest.approx(1.0)
    assert Paired(200, 120, 100, 20, 0).p_loss == pytest.approx(2.0**-20)


def test_other_items() -> None:
    """Answers to other items are no pairs."""
    with pytest.raises(ValueError, match="same items: 3"):
        pair({"1": True, "3": True}, {"1": True})
    with pytest.raises(ValueError, match="there are none"):
        pair({}, {})


@given(st.integers(0, 60), st.floats(0.01, 0.99))
def test_binomial_adds_up(trials: int, chance: float) -> None:
    """The probabilities of all counts are one."""
    assert math.fsum(binomial(trials, count, chance) for count in range(trials + 1)) == pytest.approx(1.0)
    assert upper_tail(trials, 0, chance) == pytest.approx(1.0)


@pytest.mark.parametrize("differing", range(40))
def test_critical(differing: int) -> None:
    """The fewest losses whose tail is within the error rate; one fewer is outside of it."""
    losses = critical(differing)
    assert upper_tail(differing, losses, 0.5) <= 0.05
    assert losses == 0 or upper_tail(differing, losses - 1, 0.5) > 0.05


def test_detectable() -> None:
    """With 200 items of which 5% differ, some loss is found in 80% of cases, and no smaller one."""
    loss = detectable_loss(200, 0.05)
    assert loss is not None
    assert 0.02 < loss < 0.06
    assert power(200, max(0.05, loss), loss) >= 0.80
    assert power(200, 0.05, loss - 0.001) < 0.80
    more = detectable_loss(1000, 0.05)
    assert more is not None
    assert more < loss
    assert detectable_loss(4, 0.0) is None  # four items cannot show a loss at 5%
    assert power(5, 1.0, 1.0) == 1.0  # all five differ, all for the worse


def test_detectable_of_a_pair() -> None:
    """The share that differed goes into what could have been seen."""
    assert detectable_loss(200, 0.05) == pytest.approx(0.042)
    assert Paired(200, 106, 104, 6, 4).detectable == detectable_loss(200, 0.05)
    assert Paired(200, 120, 100, 20, 0).detectable == detectable_loss(200, 0.1) != detectable_loss(200, 0.05)


@pytest.mark.parametrize("right", [0, 6, 7, 500])
def test_nothing_to_lose(right: int) -> None:
    """Seven lost items of 500 would be found, where the reference, whatever the subject, has seven right."""
    loss = detectable_loss(500, 0.0)
    assert loss == pytest.approx(7 / 500)
    assert Paired(500, right, right, 0, 0).detectable == (loss if right >= 7 else None)
    assert (Paired(500, right, 500, 0, 500 - right).detectable is None) is (right < 500)


@pytest.mark.parametrize(
    ("count", "chance", "probability"), [(5, 1.0, 1.0), (4, 1.0, 0.0), (0, 0.0, 1.0), (1, 0.0, 0.0)]
)
def test_certain(count: int, chance: float, probability: float) -> None:
    """What always or never happens does so in every trial."""
    assert binomial(5, count, chance) == probability


def test_perplexity() -> None:
    """Per token over all texts, not the mean of texts; no text is no number."""
    assert perplexity([Scored(-math.log(8.0) * 10, 10)]) == pytest.approx(8.0)
    both = [Scored(-math.log(2.0) * 30, 30), Scored(-math.log(4.0) * 10, 10)]
    assert perplexity(both) == pytest.approx(2.0**1.25)
    with pytest.raises(ValueError, match="no text"):
        perplexity([])


@pytest.mark.parametrize(
    ("nats", "found"),
    [
        (0.0, 1.0),
        (690.0, math.exp(690.0)),
        (691.0, WORST),
        (1e6, WORST),
        (math.inf, WORST),
        (math.nan, WORST),
        (-0.01, WORST),
        (-math.inf, WORST),
    ],
)
def test_no_perplexity(nats: float, found: float) -> None:
    """Scores that are no likelihoods of a text give the worst perplexity, which is a number."""
    assert perplexity([Scored(-1.0, 1), Scored(1.0 - 2 * nats, 1)]) == found


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("the crew met the tower and the crew left the tower", False),
        ("I will check the tower. " * 4, True),
        ("I will check the tower. " * 3, False),
        ("no no no", False),
        ("no " * 12, True),
        ("a b " * 4, True),
        ("", False),
        (" ".join(str(number) for number in range(400)), False),
        ("a b c d e f g h " * 4, True),
        ("yes " + "no " * 7, False),
        ("yes " + "no " * 8, True),
        (" ".join(f"w{number}" for number in range(40)) + " end", False),
        (" ".join(f"w{number % 40}" for number in range(160)), True),
        (" ".join(f"w{number % 40}" for number in range(159)), False),
        (" ".join(f"w{number % 41}" for number in range(41 * 9)), False),
        ("| a | b | c | d |\n| --- | --- | --- | --- |\n| 1 | 2 | 3 | 4 |", False),
        ("-" * 80 + " " + "- " * 40, False),
        ("Total" + "." * 60 + "5", False),
        ("哈" * 39, False),
        ("哈" * 40, True),
        ("so " + "我看看阀门。" * 8, True),
        ("我现在去看看第七号阀门的情况。" * 3, False),
        ("https://example.org/" + "".join(str(number) for number in range(100, 400)), False),
    ],
)
def test_repeats(text: str, loops: bool) -> None:
    """Words that come again and again at once are a loop; a repeated word or sentence is not yet one."""
    assert repeats(text) is loops
