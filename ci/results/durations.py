"""Seconds as test runners write them, decimal commas included."""

from __future__ import annotations

import re

MAX_SECONDS = 1e9
"""Thirty years: beyond it stands a time stamp, not a duration."""
_PLAIN = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,2})?|\.[0-9]+")
_DECIMAL_COMMA = re.compile(r"(?:0,[0-9]+|[0-9]+,(?:[0-9]{1,2}|[0-9]{4,})|[0-9]{4,},[0-9]{3})")
_POINT_GROUPS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+")
_COMMA_GROUPS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+\.[0-9]+")


def parse_seconds(text: str | None) -> tuple[float | None, str | None]:
    """Return (seconds, warning); seconds is None unless only one reading is possible.

    ``0,160`` can only have a decimal comma and ``1.234,5`` only thousands points;
    ``1,024`` could be either, so it is None rather than a guess.
    """
    if text is None or not text.strip():
        return None, "a case has no time"
    text = text.strip()
    if len(text) > 40:
        return None, "a case has a time that is no number"
    if _PLAIN.fullmatch(text):
        return _bounded(float(text))
    if _DECIMAL_COMMA.fullmatch(text):
        return _bounded(float(text.replace(",", ".")), "a time is written with a decimal comma")
    if _POINT_GROUPS.fullmatch(text):
        return _bounded(
            float(text.replace(".", "").replace(",", ".")), "a time is written with a decimal comma"
        )
    if _COMMA_GROUPS.fullmatch(text):
        return _bounded(float(text.replace(",", "")), "a time is written with thousands commas")
    return None, "a case has a time that is no number, or could be read as two"


def _bounded(seconds: float, warning: str | None = None) -> tuple[float | None, str | None]:
    if seconds > MAX_SECONDS:
        return None, "a case has a time that is too long to be one"
    return seconds, warning
