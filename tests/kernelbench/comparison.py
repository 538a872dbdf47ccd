"""Times of an arm beside those of other arms in the same run: the order of the passes, and what follows.

Pure: what was timed comes in as numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cases import Case

ALWAYS = ("mq3d", "stock")
"""The arms whose times are recorded, wherever the series has them."""


@dataclass(frozen=True)
class Opponents:
    """The arms that are timed beside the one under test."""

    names: tuple[str, ...]
    """Each once, in the order of their passes."""
    before: str | None
    """The arm with one step of the series less; None for the first one."""


def opponents(arms: Sequence[str]) -> Opponents:
    """Choose them from the arms up to the one under test, which comes last."""
    before = arms[-2] if len(arms) > 1 else None
    wanted = [name for name in (*ALWAYS, before) if name is not None and name in arms]
    return Opponents(tuple(dict.fromkeys(wanted)), before)


def mirrored(names: Sequence[str]) -> tuple[str, ...]:
    """The order of the passes, there and back (A B C C B A), so that a steady drift favours nobody."""
    return (*names, *reversed(names))


@dataclass(frozen=True)
class Timed:
    """Microseconds of one call in an arm's two passes, each a median over replays."""

    first: float
    second: float

    @property
    def us(self) -> float:
        """What is recorded of both."""
        return mean((self.first, self.second))

    @property
    def spread(self) -> float:
        """How far they lie apart, as a share of their mean."""
        return abs(self.first - self.second) / self.us


@dataclass(frozen=True)
class Leg:
    """What one arm did with one case."""

    timed: Timed
    path: str
    """3D or 2D."""


@dataclass(frozen=True)
class Figure:
    """One record to be; a value of None needs its reason."""

    metric: str
    value: float | int | str | None
    unit: str
    reason: str | None = None


def ratio_to(reference: Timed, own: Timed) -> float:
    """How long the arm takes where the reference takes 1."""
    return own.us / reference.us


@dataclass(frozen=True)
class Seen:
    """What a comparison says of a call done twice."""

    value: float
    """The number that it looks at."""
    red: bool
    """Whether it notices."""


def time_seen(once: Timed, twice: Timed, margin: float) -> Seen:
    """Whether the time of a call done twice leaves the margin (a share) of the call's time."""
    return Seen(twice.us, twice.us > once.us * (1 + margin))


def ratio_seen(once: Timed, twice: Timed, bound: float) -> Seen:
    """Whether a call done twice exceeds the bound on the ratio to the arm before.

    The same arm's single call stands in the place of the arm before: beside the real one, an arm twice as
    fast could do everything twice and stay within the bound.
    """
    ratio = ratio_to(once, twice)
    return Seen(ratio, ratio > bound)


def figures(
    case: Case,
    own: Leg,
    flag_off: Timed | None,
    others: Mapping[str, Leg],
    before: str | None,
    copy_bytes_per_s: float,
) -> Iterator[Figure]:
    """All records of a case.

    Args:
        case: what was timed.
        own: the arm under test, as a user runs it: with the flag on.
        flag_off: its time with the flag off, where the case asks for it.
        others: the same case in the arms beside it, by name.
        before: which of them has one step of the series less.
        copy_bytes_per_s: bytes read plus written per second by the card's own copy.
    """
    us = own.timed.us
    yield Figure("path", own.path, "name")
    yield Figure(case.time_metric, us, "us")
    yield Figure("spread", own.timed.spread, "1")
    if flag_off is not None:
        yield Figure("us_2d", flag_off.us, "us")
        yield Figure("speedup_3d", flag_off.us / us, "1")
    if case.has_floor:
        floor = case.bytes_read / copy_bytes_per_s * 1e6
        yield Figure("bytes_read", case.bytes_read, "bytes")
        yield Figure("floor_us", floor, "us")
        yield Figure("ratio_to_floor_3d", us / floor, "1")
    for name in ALWAYS:
        leg = others.get(name)
        reason = None if leg else f"the series has no arm {name} up to the one under test"
        yield Figure(f"us_{name}", leg and leg.timed.us, "us", reason)
        yield Figure(f"speedup_{name}", leg and leg.timed.us / us, "1", reason)
        yield Figure(f"path_{name}", leg and leg.path, "name", reason)
    if before is None:
        yield Figure("ratio_to_before", None, "1", "no arm comes before the one under test")
    else:
        yield Figure("ratio_to_before", ratio_to(others[before].timed, own.timed), "1")
