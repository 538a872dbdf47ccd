"""Events out of bytes, in any pieces."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ci.engine.sse import BOM, Event, EventReader
from tests.gate.engine.streams import GOOD


def events(data: bytes, cuts: list[int]) -> list[Event]:
    """The events of `data` cut at these places."""
    reader = EventReader()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [event for begin, end in itertools.pairwise(edges) for event in reader.feed(data[begin:end])]


def test_bytewise_equals_whole() -> None:
    """Every stream gives the same events byte by byte, line ends of two bytes included."""
    for data, *_ in GOOD.values():
        assert events(data, list(range(len(data)))) == events(data, [])


@given(st.sampled_from(sorted(GOOD)), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_cut(name: str, cuts: list[int]) -> None:
    """Cuts, empty pieces among them, make no difference."""
    data = GOOD[name][0]
    assert events(data, cuts) == events(data, [])


def test_fields() -> None:
    """Data lines join, one space after the colon goes; other fields and comments do not count."""
    reader = EventReader()
    assert reader.feed(b"data: a\ndata:  b\nid: 3\n: c\ndata\nfoo: x\n\n\n") == [("", "a\n b\n")]
    assert not reader.unfinished


def test_names() -> None:
    """A name is of one event, wherever it stands in it; it makes an event by itself."""
    reader = EventReader()
    assert reader.feed(b"data: a\nevent: error\n\ndata: b\n\n") == [("error", "a"), ("", "b")]
    assert reader.feed(b"event:error\n") == []
    assert reader.unfinished
    assert reader.feed(b"\n") == [("error", "")]


def test_object_outside_of_a_field() -> None:
    """An error that a server writes between its events is no unknown field."""
    assert EventReader().feed(b'{"error": 1}\n\n') == [("", '{"error": 1}')]


def test_byte_order_mark() -> None:
    """It may stand at the beginning of a stream only: before a later line it makes another field of it."""
    mark = BOM.decode()
    assert EventReader().feed(f"{mark}data: a\n{mark}data: b\n\n".encode()) == [("", "a")]


def test_unfinished() -> None:
    """An event counts when its blank line has come."""
    reader = EventReader()
    assert reader.feed(b"data: [DONE]\n") == []
    assert reader.unfinished
    assert reader.feed(b"\n") == [("", "[DONE]")]
    assert not reader.unfinished
