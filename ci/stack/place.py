"""Find where the old side of a hunk stands in a file: exactly, or not at all.

The rule, for each hunk in order:

* Its old lines must stand in the file byte for byte, after the previous hunk.
* A hunk without context before it, stated on line 1, must stand at the start
  of the file; one without context after it, at the end.
* If they stand on the stated line, that is the place; else the nearest place
  where they do.  "Nearest" is counted from the stated line, and again from the
  stated line moved as far as the previous hunk was.  If the two disagree, or
  two places are equally near, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ci.stack.patchmodel import Hunk

Lines = Sequence[bytes]


@dataclass(frozen=True)
class Placement:
    """Where one hunk was found."""

    patch: str
    file: str
    hunk: int
    """Number within the file, from 1."""
    stated: int
    """Line in the old file by the patch, from 1."""
    found: int
    """Line on which it stands, from 1."""

    @property
    def offset(self) -> int:
        """Lines between the two; 0 is where it should be."""
        return self.found - self.stated


@dataclass(frozen=True)
class Tie:
    """Two places that fit equally well, lines from 0."""

    first: int
    second: int


def split_lines(data: bytes) -> list[bytes]:
    """The lines of ``data`` with their line end; only LF ends a line."""
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def fits(lines: Lines, old: Lines, at: int) -> bool:
    """True if ``old`` stands in ``lines`` from index ``at`` on."""
    return at >= 0 and list(lines[at : at + len(old)]) == list(old)


def matches(lines: Lines, old: Lines, floor: int = 0) -> list[int]:
    """Every index from ``floor`` on at which ``old`` stands in ``lines``."""
    first, last = old[0], len(lines) - len(old)
    return [at for at in range(floor, last + 1) if lines[at] == first and fits(lines, old, at)]


def anchored(hunk: Hunk, at: int, total: int) -> bool:
    """True if index ``at`` suits a hunk that must touch the start or the end of ``total`` lines."""
    if hunk.at_start and at != 0:
        return False
    return not hunk.at_end or at + len(hunk.old) == total


def nearest(places: Sequence[int], target: int) -> int | Tie:
    """The place nearest to ``target``; a Tie if one above and one below are equally near."""
    ordered = sorted(places, key=lambda at: (abs(at - target), at))
    if len(ordered) > 1 and abs(ordered[0] - target) == abs(ordered[1] - target):
        return Tie(ordered[0], ordered[1])
    return ordered[0]


def choose(places: Sequence[int], stated: int, carried: int) -> int | Tie:
    """The place for a hunk stated at index ``stated``, after one that was moved by ``carried`` lines."""
    plain = nearest(places, stated)
    moved = nearest(places, stated + carried)
    if isinstance(plain, Tie):
        return plain if isinstance(moved, Tie) or moved not in (plain.first, plain.second) else moved
    if isinstance(moved, Tie):
        return moved
    return plain if plain == moved else Tie(min(plain, moved), max(plain, moved))
