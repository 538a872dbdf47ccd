"""Printed sizes in bytes."""

from __future__ import annotations

import pytest

from ci.engine.units import GIB, MIB, parse_size


@pytest.mark.parametrize(
    ("digits", "unit", "count", "resolution"),
    [
        ("4.9", "GiB", round(4.9 * GIB), round(GIB / 100)),
        ("15.4137", "GB", round(15.4137 * GIB), round(GIB / 10_000)),
        ("-2.14", "GiB", round(-2.14 * GIB), round(GIB / 100)),
        ("605.88", "MiB", round(605.88 * MIB), round(MIB / 100)),
        ("47878721024", "bytes", 47_878_721_024, 1),
        ("12.6", "B", 13, 1),
        ("1,024", "MiB", 1024 * MIB, round(MIB / 100)),
    ],
)
def test_sizes(digits: str, unit: str, count: int, resolution: int) -> None:
    """vLLM's GB are GiB, a dropped zero does not coarsen, and printed text is kept."""
    size = parse_size(digits, unit)
    assert (size.bytes, size.resolution_bytes, size.unit) == (count, resolution, unit)
    assert size.printed == f"{digits} {unit}"


def test_unknown_unit() -> None:
    """A unit that vLLM does not print is refused."""
    with pytest.raises(KeyError):
        parse_size("1", "TB")
