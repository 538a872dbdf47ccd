"""Server-sent events out of bytes, in whatever pieces they arrive.

Lines are split on bytes and by the standard's three line ends only: generated text may well hold U+2028 or
U+0085, at which a text splitter would cut an event in two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event. One without data is kept as well: the name of an error may be all that is said of it."""

    name: str
    """Of its `event:` field; empty if it has none."""
    data: str
    """Its `data:` lines, joined by line feeds."""


@dataclass
class EventReader:
    """Feed it pieces of a stream; it gives back the events that have become complete."""

    _line: bytearray = field(default_factory=bytearray)
    _name: bytes = b""
    _data: list[bytes] = field(default_factory=list)
    _first: bool = True
    _after_cr: bool = False

    def feed(self, piece: bytes) -> list[Event]:
        """Each event that ends in this piece."""
        found = []
        for line in self._lines(piece):
            event = self._take(line)
            if event is not None:
                found.append(event)
        return found

    @property
    def unfinished(self) -> bool:
        """Whether the stream stands in the middle of an event."""
        return bool(self._line or self._name or self._data)

    def _lines(self, piece: bytes) -> list[bytes]:
        """Whole lines; a line feed after a carriage return belongs to it, also across pieces."""
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]
            self._after_cr = False
        if piece:
            self._after_cr = piece.endswith(b"\r")
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *whole, rest = piece.split(b"\n")
        if whole:
            whole[0] = bytes(self._line) + whole[0]
            self._line.clear()
        self._line += rest
        return whole

    def _take(self, line: bytes) -> Event | None:
        """One line: the event that it ends, if it ends one."""
        if self._first:
            line, self._first = line.removeprefix(BOM), False
        if not line:
            return self._end()
        name, _, value = line.partition(b":")
        if line.startswith(b"{"):  # an error of a server that writes it past its own events: no field's name
            self._data.append(line)
        elif name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._name = value.removeprefix(b" ")
        return None

    def _end(self) -> Event | None:
        """What the lines since the last blank one make."""
        name, data = self._name, b"\n".join(self._data)
        found = Event(name.decode(errors="replace"), data.decode(errors="replace"))
        said = bool(name or self._data)
        self._name = b""
        self._data.clear()
        return found if said else None
