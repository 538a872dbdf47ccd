"""Machine code of other GPUs inside a compiled extension: blanked, so that an archive of it stays small.

An extension carries fat binaries: a header, then one entry per architecture with its machine code or PTX.
Host code finds an entry by its architecture and never reads the others, so their payload may be anything,
and zeros compress away.  Sizes and offsets stay as they are.

Layout, as the CUDA toolkit writes it (little-endian): header ``magic u32, version u16, header size u16, size
u64``; entry ``kind u16, version u16, header size u32, payload size u64, ..., architecture u32 at byte 28``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ci.errors import GateError

MAGIC = struct.pack("<I", 0xBA55ED50)
HEADER = struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQ")
ARCHITECTURE_AT = 28
VERSION = 1


class FatbinError(GateError):
    """The extension has no machine code for the architecture that is asked for."""


@dataclass(frozen=True)
class Entry:
    """One architecture's code."""

    start: int
    """Offset of the payload."""
    size: int
    """Bytes of the payload."""
    architecture: int
    """Compute capability times ten, such as 90."""


def entries(data: bytes) -> Iterator[Entry]:
    """Every entry of every fat binary in a file."""
    position = 0
    while (position := data.find(MAGIC, position)) >= 0:
        found = _entries_at(data, position)
        if found is None:  # the magic number by chance
            position += len(MAGIC)
            continue
        held, position = found
        yield from held


def _entries_at(data: bytes, start: int) -> tuple[list[Entry], int] | None:
    if start + HEADER.size > len(data):
        return None
    _, version, header_size, size = HEADER.unpack_from(data, start)
    end = start + header_size + size
    if version != VERSION or header_size != HEADER.size or end > len(data):
        return None
    found, position = [], start + header_size
    while position < end:
        if position + ARCHITECTURE_AT + 4 > end:
            return None
        _, _, entry_header, payload = ENTRY.unpack_from(data, position)
        (architecture,) = struct.unpack_from("<I", data, position + ARCHITECTURE_AT)
        if entry_header < ARCHITECTURE_AT + 4 or position + entry_header + payload > end:
            return None
        found.append(Entry(position + entry_header, payload, architecture))
        position += entry_header + payload
    return found, end


def keep_architecture(data: bytes, architecture: int) -> bytes:
    """The extension with the code of every other architecture set to zero; as long as before.

    Raises:
        FatbinError: no entry is for `architecture`, so nothing would run.
    """
    every = list(entries(data))
    if not any(entry.architecture == architecture for entry in every):
        there = sorted({entry.architecture for entry in every})
        raise FatbinError(
            f"no machine code for architecture {architecture} in this extension, only for {there}",
            remedy="name an architecture it has, or bundle the extension whole",
        )
    blanked = bytearray(data)
    for entry in every:
        if entry.architecture != architecture:
            blanked[entry.start : entry.start + entry.size] = bytes(entry.size)
    return bytes(blanked)
