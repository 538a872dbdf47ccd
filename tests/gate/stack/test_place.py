from __future__ import annotations

import pytest

from ci.stack.patchmodel import Hunk
from ci.stack.place import Tie, anchored, choose, matches, nearest, split_lines


def test_only_line_feeds_end_a_line() -> None:
    """A carriage return or form feed inside a line is content; a last line may lack its newline."""
    assert split_lines(b"a\r\nb\x0cc\rd\n\ne") == [b"a\r\n", b"b\x0cc\rd\n", b"\n", b"e"]
    assert split_lines(b"") == []


def test_matches_are_exact_and_after_the_floor() -> None:
    """Every place at which the lines stand byte for byte, from the floor on."""
    lines = split_lines(b"x\na\nb\na\nb\na\nb ")
    assert matches(lines, (b"a\n", b"b\n")) == [1, 3]
    assert matches(lines, (b"a\n", b"b\n"), 2) == [3]
    assert matches(lines, (b"b ",)) == [6]
    assert matches(lines, (b"x\n",) * 9) == []


@pytest.mark.parametrize(
    ("places", "target", "chosen"),
    [([4], 40, 4), ([10, 30], 12, 10), ([10, 30], 29, 30), ([10, 30], 20, Tie(10, 30)), ([10, 30], 10, 10)],
)
def test_nearest(places: list[int], target: int, chosen: int | Tie) -> None:
    """The stated line wins, then the nearest place; two equally near are a tie."""
    assert nearest(places, target) == chosen


@pytest.mark.parametrize(
    ("places", "stated", "carried", "chosen"),
    [
        ([10, 50], 10, 0, 10),
        ([50, 90], 10, 40, 50),
        ([10, 50], 10, 40, Tie(10, 50)),
        ([10, 30], 20, 8, 30),
        ([10, 30], 20, 0, Tie(10, 30)),
        ([10, 30], 12, 8, Tie(10, 30)),
        ([10, 30, 90], 20, 71, Tie(10, 30)),
    ],
)
def test_choose(places: list[int], stated: int, carried: int, chosen: int | Tie) -> None:
    """Where the stated line, and that line moved like the hunk before, lead apart, nothing is guessed."""
    assert choose(places, stated, carried) == chosen


def test_a_hunk_cut_at_an_edge_stands_at_that_edge() -> None:
    """No leading context on line 1 means the start; no trailing context means the end."""
    start = Hunk(1, 1, 1, (b"-a\n", b" b\n"))
    end = Hunk(1, 1, 5, (b" a\n", b"-b\n"))
    inner = Hunk(1, 1, 1, (b" a\n", b"-b\n", b" c\n"))
    assert anchored(start, 0, 9)
    assert not anchored(start, 3, 9)
    assert anchored(end, 7, 9)
    assert not anchored(end, 6, 9)
    assert anchored(inner, 3, 9)
