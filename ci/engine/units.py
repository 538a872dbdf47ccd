"""Sizes as vLLM prints them, in bytes, with how finely they were printed."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

GIB = 1 << 30
MIB = 1 << 20

UNIT_BYTES = {"GiB": GIB, "MiB": MIB, "KiB": 1 << 10, "GB": GIB, "MB": MIB, "bytes": 1, "B": 1}
"""vLLM before 0.10 prints "GB" for a number of GiB: it divided by 2**30 all along."""
USUAL_DECIMALS = 2
"""vLLM rounds to two decimals and drops trailing zeros: `4.9 GiB` is as fine as `4.90 GiB`."""


@dataclass(frozen=True)
class Size:
    """A printed size."""

    bytes: int
    resolution_bytes: int
    """The last printed digit: the true size is within half of it."""
    printed: str
    """Digits and unit as they stand in the log."""
    unit: str


def parse_size(digits: str, unit: str) -> Size:
    """The size that `digits` of `unit` say; thousands separators and a sign may be there.

    Raises:
        KeyError: a unit that vLLM does not print.
    """
    plain = digits.replace(",", "").strip()
    factor = UNIT_BYTES[unit]
    if factor == 1:
        return Size(round(Decimal(plain)), 1, f"{digits} {unit}", unit)
    decimals = max(USUAL_DECIMALS, len(plain.partition(".")[2]))
    return Size(round(float(plain) * factor), max(1, round(factor / 10**decimals)), f"{digits} {unit}", unit)
