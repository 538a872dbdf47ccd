"""Blanking other architectures: only their payload changes, and a chance magic number is not a header."""

from __future__ import annotations

import struct

import pytest

from ci.lanes.fatbin import FatbinError, entries, keep_architecture


def fatbin(*codes: tuple[int, bytes]) -> bytes:
    """A fat binary of (architecture, payload) entries."""
    body = b""
    for architecture, payload in codes:
        header = struct.pack("<HHIQ", 2, 1, 64, len(payload)).ljust(28, b"\1") + struct.pack(
            "<I", architecture
        )
        body += header.ljust(64, b"\2") + payload
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def test_only_the_payload_of_others_is_zeroed() -> None:
    """Length, headers, host code and the kept architecture stay as they are."""
    before = b"host code" + fatbin((80, b"eighty"), (90, b"ninety")) + b"more" + fatbin((120, b"later"))
    after = keep_architecture(before, 90)
    assert after == before.replace(b"eighty", bytes(6)).replace(b"later", bytes(5))


def test_entries_are_found_across_fat_binaries() -> None:
    """Each entry with its architecture and size."""
    data = fatbin((80, b"ab"), (90, b"cde")) + fatbin((90, b""))
    assert [(entry.architecture, entry.size) for entry in entries(data)] == [(80, 2), (90, 3), (90, 0)]


@pytest.mark.parametrize(
    "tail",
    [
        struct.pack("<I", 0xBA55ED50),
        struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 10**6),
        struct.pack("<IHHQ", 0xBA55ED50, 7, 16, 0),
        struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 8) + b"too short",
    ],
)
def test_a_chance_magic_number_is_left_alone(tail: bytes) -> None:
    """Without a plausible header behind it nothing is touched."""
    data = fatbin((90, b"kept")) + tail
    assert keep_architecture(data, 90) == data


def test_an_architecture_that_is_not_there_is_refused() -> None:
    """An extension without code for the host would fail there; the error names what it has."""
    with pytest.raises(FatbinError, match=r"architecture 86 .*\[80, 90\]"):
        keep_architecture(fatbin((80, b"a"), (90, b"b")), 86)
