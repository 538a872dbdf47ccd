"""Where things stand on logarithmic axes."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from ci.report.loglog import BOTTOM, HEIGHT, LABEL_GAP, Line, LogAxis, Panel, apart, axis, picture

SVG = "{http://www.w3.org/2000/svg}"


def test_equal_ratios_take_equal_room() -> None:
    """Each power of ten is as wide as the next, in both directions of the pixels."""
    across = LogAxis(10.0, 1000.0, 0.0, 200.0)
    assert [across.at(one) for one in (10.0, 100.0, 1000.0)] == pytest.approx([0.0, 100.0, 200.0])
    assert LogAxis(1.0, 100.0, 300.0, 100.0).at(10.0) == pytest.approx(200.0)


def test_an_axis_has_room_on_both_sides() -> None:
    """No value stands on the frame, and a single value still has a width."""
    found = axis([5.0, 50.0], 0.0, 100.0)
    assert (found.low, found.high) == pytest.approx((5.0 / 1.1, 55.0))
    assert axis([7.0], 0.0, 100.0).at(7.0) == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (5.0, 15000.0, [10, 100, 1000, 10000]),
        (10.0, 1000.0, [10, 100, 1000]),
        (20.0, 600.0, [20, 50, 100, 200, 500]),
        (0.15, 3.0, [0.2, 0.5, 1, 2]),
        (0.001, 0.1, [0.001, 0.01, 0.1]),
        (11.0, 19.0, []),
    ],
)
def test_ticks(low: float, high: float, expected: list[float]) -> None:
    """Powers of ten, and where fewer than three fit, twice and five times them; all exact."""
    assert LogAxis(low, high, 0.0, 1.0).ticks() == expected


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([10.0, 100.0], [10.0, 100.0]),
        ([10.0, 12.0, 14.0], [10.0, 24.0, 38.0]),
        ([14.0, 10.0], [24.0, 10.0]),
        ([10.0, 10.0, 90.0], [10.0, 24.0, 90.0]),
        ([10.0, 199.0, 198.0], [10.0, 200.0, 186.0]),
        ([199.0, 198.0, 197.0, 196.0, 195.0], [200.0, 186.0, 172.0, 158.0, 144.0]),
        ([150.0, 180.0, 190.0, 195.0], [150.0, 172.0, 186.0, 200.0]),
        ([], []),
    ],
)
def test_names_do_not_cover_each_other(places: list[float], expected: list[float]) -> None:
    """Names keep the order of their lines, move only as far as they must, and stay above the axis."""
    assert apart(places, bottom=200.0) == expected


def test_names_of_lines_that_end_together_stay_above_the_axis() -> None:
    """Five curves that end at the bottom have five names, none of which is among the axis's numbers."""
    low = [Line(f"l{at}", "own", ((10.0, 1000.0), (100.0, 1.0 + at / 1000))) for at in range(5)]
    root = ET.fromstring(picture("t", [], "tokens", "us", [Panel("one", tuple(low))]))  # noqa: S314 - our own
    shown = [one for one in root.iter(f"{SVG}text") if (one.text or "").startswith("l")]
    heights = sorted(float(one.attrib["y"]) for one in shown)
    assert len(heights) == 5
    assert heights[-1] <= HEIGHT - BOTTOM + 4
    assert all(after - before >= LABEL_GAP for before, after in pairwise(heights))


def test_a_picture_is_whole_and_escapes_what_it_is_told() -> None:
    """A name from somebody's series is text and nothing else; a line without points is left out."""
    lines = (Line("<b>&", "own", ((10.0, 5.0), (100.0, 50.0))), Line("nothing", "base", ()))
    drawn = picture("t", ["a GPU", "a <day>"], "tokens", "us", [Panel("one", lines), Panel("two", lines[1:])])
    root = ET.fromstring(drawn)  # noqa: S314 - our own picture
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert "<b>&" in texts
    assert "nothing" not in texts
    assert texts[-2:] == ["a GPU", "a <day>"]
    assert [one.text for one in root.iter(f"{SVG}desc")] == ["a GPU, a <day>"]
    assert [one for one in texts if one in ("one", "two")] == ["one", "two"]
    assert len(list(root.iter(f"{SVG}circle"))) == 2
