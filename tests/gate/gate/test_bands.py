"""Bands: the stored file, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.gate.bands import BandsError, parse_bands
from ci.gate.membudget import MIB

STORED = Path(__file__).parents[3] / "baselines" / "bands.toml"
GOOD = 'schema = 1\n[[band]]\nlane = "h200"\nlow_mib = -1.5\nhigh_mib = 2\norigin = "ours"\n'


def test_stored_bands() -> None:
    """The bands of the published tables, in bytes; a lane that is not listed has none."""
    bands = parse_bands(STORED.read_text(encoding="utf-8"), STORED)
    assert (bands["rtx3090"].low_bytes, bands["rtx3090"].high_bytes) == (
        round(-31.5 * MIB),
        round(51.1 * MIB),
    )
    assert bands["rtx4090"].width_bytes == 5 * MIB
    assert "gtx1080" not in bands


@pytest.mark.parametrize(("low", "high"), [(-1024, 1024), (0, 0)])
def test_edges(low: int, high: int) -> None:
    """The widest band there may be, and the one that allows nothing."""
    text = GOOD.replace("-1.5", str(low)).replace("high_mib = 2", f"high_mib = {high}")
    band = parse_bands(text, Path("b"))["h200"]
    assert (band.low_bytes, band.high_bytes) == (low * MIB, high * MIB)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("low_mib = -1.5", "low_mib = 1.5", "does not hold 0"),
        ("high_mib = 2", "high_mib = 2000", "over 1024 MiB"),
        ("high_mib = 2", "high_mib = nan", "does not hold 0"),
        ('origin = "ours"', 'origin = " "', "no origin"),
        ("low_mib = -1.5", "low_mib = 0.5", "does not hold 0"),
        ("low_mib = -1.5", "low_mib = -1024.5", "over 1024 MiB"),
        ("schema = 1", "schema = 2", "schema 2"),
        ("schema = 1", "schema = 1\nwidth = 3", "unknown field"),
        ("high_mib = 2", "high = 2", "unknown field"),
        ("[[band]]", GOOD.partition("\n")[2] + "[[band]]", "two bands"),
    ],
)
def test_damaged_bands(old: str, new: str, words: str) -> None:
    """Each mistake is refused with what is wrong."""
    assert parse_bands(GOOD, Path("b"))["h200"].high_bytes == 2 * MIB
    with pytest.raises(BandsError, match=words):
        parse_bands(GOOD.replace(old, new), Path("b"))
