"""A duration has one reading, or none."""

from __future__ import annotations

import pytest

from ci.results.durations import parse_seconds

READINGS: dict[str | None, float | None] = {
    "0.160": 0.16,
    "12": 12.0,
    "1e-3": 0.001,
    ".5": 0.5,
    "1.024": 1.024,
    "0,160": 0.16,
    "12,5": 12.5,
    "1,0240": 1.024,
    "1024,125": 1024.125,
    "1.234,5": 1234.5,
    "1,234.5": 1234.5,
    "1,024": None,
    "1,024,000": None,
    "1.024.000": None,
    "": None,
    " ": None,
    None: None,
    "-1": None,
    "nan": None,
    "inf": None,
    "1e99": None,
    "5 s": None,
    "\u0661": None,
    "9" * 50: None,
}


@pytest.mark.parametrize("text", READINGS)
def test_seconds_are_never_guessed(text: str | None) -> None:
    """Commas are read where only one reading is possible; anything else is None with a warning."""
    seconds, warning = parse_seconds(text)
    assert seconds == READINGS[text]
    assert (warning is None) == (seconds is not None and "," not in (text or ""))
