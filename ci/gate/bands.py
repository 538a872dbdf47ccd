"""By how much a memory difference may miss the planned bytes, per lane: ``baselines/bands.toml``."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ci.errors import GateError
from ci.gate.membudget import MIB, Band
from ci.gate.tables import decode_table

SCHEMA_VERSION = 1
LARGEST_MIB = 1024


class BandsError(GateError):
    """The bands cannot be used as written."""


class _BandTable(msgspec.Struct, forbid_unknown_fields=True):
    lane: str
    low_mib: float
    high_mib: float
    origin: str


class _BandsFile(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    band: list[_BandTable]


def parse_bands(text: str, path: Path) -> dict[str, Band]:
    """The bands in ``text``, by lane.

    Raises:
        BandsError: naming the file and the lane.
    """
    table = decode_table(text, path, _BandsFile, BandsError)
    if table.schema != SCHEMA_VERSION:
        raise BandsError(f"{path}: schema {table.schema}, this gate reads {SCHEMA_VERSION}")
    bands: dict[str, Band] = {}
    for one in table.band:
        if one.lane in bands:
            raise BandsError(f"{path}: lane {one.lane!r} has two bands", remedy="remove one of them")
        # A band holds zero: what is planned exactly may always be found exactly.
        if not -LARGEST_MIB <= one.low_mib <= 0 <= one.high_mib <= LARGEST_MIB:
            raise BandsError(f"{path}: the band of {one.lane!r} does not hold 0 or is over {LARGEST_MIB} MiB")
        if not one.origin.strip():
            raise BandsError(
                f"{path}: the band of {one.lane!r} has no origin", remedy="say where it was seen"
            )
        bands[one.lane] = Band(round(one.low_mib * MIB), round(one.high_mib * MIB), one.origin)
    return bands
