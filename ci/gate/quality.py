"""Two arms on the same items: the paired exact test, what it could have seen, and perplexities.  Pure.

An item that both arms answer alike says nothing about a difference between them; McNemar's test looks at the
others alone, and exactly, since there may be few.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

ALPHA = 0.05
"""The level of the test whose power is computed: that of the policy's line for `p_loss`."""
POWER = 0.80
"""How often the smallest detectable loss would be detected."""
STEP = 0.001
WORST = 1e300
"""The perplexity of a text whose score is none: a number, and over every bound."""


@dataclass(frozen=True)
class Paired:
    """Items that both arms answered."""

    items: int
    right_a: int
    right_b: int
    only_a: int
    """Right in A and wrong in B."""
    only_b: int

    @property
    def accuracy_a(self) -> float:
        """Share of right answers of the reference."""
        return self.right_a / self.items

    @property
    def accuracy_b(self) -> float:
        """Share of right answers of the subject."""
        return self.right_b / self.items

    @property
    def p_loss(self) -> float:
        """Probability of so many losses of B, or more, among items that differ, were neither arm better."""
        return upper_tail(self.only_a + self.only_b, self.only_a, 0.5)

    @property
    def p_two_sided(self) -> float:
        """McNemar's exact test: of a difference at least so large in either direction."""
        differing = self.only_a + self.only_b
        return min(1.0, 2 * upper_tail(differing, max(self.only_a, self.only_b), 0.5))

    @property
    def detectable(self) -> float | None:
        """The smallest loss of accuracy that would have been found, as a fraction; None if there is none.

        The reference has no more to lose than what it has right.
        """
        loss = detectable_loss(self.items, (self.only_a + self.only_b) / self.items)
        return None if loss is None or loss > self.accuracy_a else loss


def pair(right_a: Mapping[str, bool], right_b: Mapping[str, bool]) -> Paired:
    """Put the answers of both arms together, item by item.

    Raises:
        ValueError: the arms did not answer the same items, or none.
    """
    if not right_a or set(right_a) != set(right_b):
        missing = sorted(set(right_a) ^ set(right_b))[:3]
        raise ValueError(f"the arms did not answer the same items: {', '.join(missing) or 'there are none'}")
    return Paired(
        items=len(right_a),
        right_a=sum(right_a.values()),
        right_b=sum(right_b.values()),
        only_a=sum(right_a[item] and not right_b[item] for item in right_a),
        only_b=sum(right_b[item] and not right_a[item] for item in right_a),
    )


def upper_tail(trials: int, at_least: int, chance: float) -> float:
    """Probability of at least so many successes of a binomial."""
    return math.fsum(binomial(trials, count, chance) for count in range(at_least, trials + 1))


def binomial(trials: int, count: int, chance: float) -> float:
    """Probability of exactly so many successes."""
    if chance in (0.0, 1.0):
        return float(count == (trials if chance else 0))
    log = (
        math.lgamma(trials + 1)
        - math.lgamma(count + 1)
        - math.lgamma(trials - count + 1)
        + count * math.log(chance)
        + (trials - count) * math.log1p(-chance)
    )
    return math.exp(log)


@lru_cache(maxsize=64)
def detectable_loss(items: int, differing_share: float) -> float | None:
    """The smallest loss that `items` would show with `POWER`, where so large a share of them differs.

    At least the loss itself must differ, so the share grows with it.
    """
    for step in range(1, round(1 / STEP) + 1):
        loss = step * STEP
        if power(items, max(differing_share, loss), loss) >= POWER:
            return loss
    return None


def power(items: int, share: float, loss: float) -> float:
    """How often the test finds a loss: over the number of items that differ, and how they fall."""
    to_a = (1 + loss / share) / 2
    found = 0.0
    for differing in range(items + 1):
        weight = binomial(items, differing, share)
        if weight > 1e-9:
            found += weight * upper_tail(differing, critical(differing), to_a)
    return found


@lru_cache(maxsize=4096)
def critical(differing: int) -> int:
    """The fewest losses, of so many differing items, that the test calls a loss; more than all if none."""
    losses, tail = differing + 1, 0.0
    while (wider := tail + binomial(differing, losses - 1, 0.5)) <= ALPHA:
        losses, tail = losses - 1, wider
    return losses


@dataclass(frozen=True)
class Scored:
    """A text as an arm scores it."""

    log_likelihood: float
    """Natural, over the whole text; NaN if the arm gave no number."""
    tokens: int


def perplexity(texts: Sequence[Scored]) -> float:
    """Per token, over all texts; `WORST` if the scores are no likelihoods, or too small for a float.

    Raises:
        ValueError: there are no tokens.
    """
    tokens = sum(one.tokens for one in texts)
    if not tokens:
        raise ValueError("there is no text to score")
    nats = -math.fsum(one.log_likelihood for one in texts) / tokens
    return math.exp(nats) if 0.0 <= nats < math.log(WORST) else WORST  # a NaN is in no range


def repeats(text: str, words: int = 40, times: int = 4) -> bool:
    """Whether a text runs in a loop: some words, or letters where no blanks are, again and again at once.

    Marks do not count: the rule of a table repeats them, and a text of nothing else is cut at its limit.

    Args:
        text: generated.
        words: the longest loop that is looked for, and the shortest stretch of letters that is one.
        times: repetitions from which on it counts.
    """
    said = [word for word in text.split() if any(map(str.isalnum, word))]
    # A single word may be repeated for emphasis, and becomes a loop when it goes on.
    return loops(said, words, times, 2 * times) or any(
        loops([letter for letter in word if letter.isalnum()], words, times, words) for word in said
    )


def loops(units: Sequence[str], longest: int, times: int, least: int) -> bool:
    """Whether at most `longest` units come `times` times at once, in a stretch of at least `least` units."""
    for length in range(1, longest + 1):
        run = 0
        for place in range(length, len(units)):
            run = run + 1 if units[place] == units[place - length] else 0
            if run >= max(length * times, least) - length:
                return True
    return False
