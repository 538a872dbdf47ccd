"""When an A/B session may be looked at, and how far each look must see to stop.

Looking several times at one error rate would find something too often.  The
rate is therefore spent in portions (Lan and DeMets, 1983, with the power
family a t^2 of Kim and DeMets, 1987): little at the early looks, all of it at
the last.  The t interval of a look uses the tail that belongs to its bound
(Jennison and Turnbull, 2000, chapter 11).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

MAX_LOOKS = 4
"""More looks save few boots and cost power."""
PAIRS_PER_BLOCK = 2
"""A B B A is two pairs; a linear drift cancels over whole blocks only."""
_SPENDING_POWER = 2.0
_GRID = 201
_SPAN = 8.0
"""Standard deviations kept of the density; beyond them lies less than 1e-14."""
_HALVINGS = 60


def look_sizes(max_pairs: int) -> tuple[int, ...]:
    """Return the numbers of pairs after which a session is looked at; the last is ``max_pairs``.

    Raises:
        ValueError: ``max_pairs`` is not a positive number of whole blocks.
    """
    blocks, rest = divmod(max_pairs, PAIRS_PER_BLOCK)
    if rest or blocks < 1:
        raise ValueError(f"{max_pairs} pairs are no whole number of A B B A blocks")
    count = min(MAX_LOOKS, blocks)
    return tuple(math.ceil(blocks * look / count) * PAIRS_PER_BLOCK for look in range(1, count + 1))


@lru_cache(maxsize=256)
def look_tails(sizes: tuple[int, ...], error: float) -> tuple[float, ...]:
    """Return for each look the tail probability of its bound; all looks together err with ``error``.

    Args:
        sizes: increasing numbers of pairs, the last being the limit.
        error: one-sided error rate of the whole session, between 0 and 0.5.
    """
    walk = _Walk()
    return tuple(walk.step(size / sizes[-1], error * (size / sizes[-1]) ** _SPENDING_POWER) for size in sizes)


def _upper_tail(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2


class _Walk:
    """A Brownian motion that is stopped above the bound of each look (Armitage et al., 1969)."""

    def __init__(self) -> None:
        self.time = 0.0
        self.spent = 0.0
        self.mass = [(0.0, 1.0)]
        """(place, probability) of the walks that go on; one point before the first look."""

    def step(self, time: float, spend_until: float) -> float:
        """Advance to ``time``, place the bound that spends the error ``spend_until``; return its tail."""
        deviation = math.sqrt(time - self.time)
        bound = self._bound(deviation, math.sqrt(time), spend_until - self.spent)
        self.mass = self._advance(deviation, math.sqrt(time), bound)
        self.time, self.spent = time, spend_until
        return _upper_tail(bound / math.sqrt(time))

    def _bound(self, deviation: float, scale: float, error: float) -> float:
        low, high = -_SPAN * scale, _SPAN * scale
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            above = sum(mass * _upper_tail((middle - place) / deviation) for place, mass in self.mass)
            low, high = (middle, high) if above > error else (low, middle)
        return high

    def _advance(self, deviation: float, scale: float, bound: float) -> list[tuple[float, float]]:
        """Return the mass below ``bound`` on a grid with Simpson's weights."""
        low = -_SPAN * scale
        width = (bound - low) / (_GRID - 1)
        density = NormalDist(0, deviation).pdf
        moved = []
        for index in range(_GRID):
            weight = width / 3 * (1 if index in (0, _GRID - 1) else 4 if index % 2 else 2)
            here = low + index * width
            moved.append((here, weight * sum(mass * density(here - place) for place, mass in self.mass)))
        return moved
