"""What a leg did, as records; a leg that did not reach the launcher exactly once says nothing."""

from __future__ import annotations

from typing import Any

from armlib.attention import Leg

UNREACHED = (
    "the launcher was called {calls} times in this leg, not once, so the leg says nothing about the arm"
)


def unusable(leg: Leg, expected_calls: int = 1) -> str | None:
    """Why a leg cannot be judged, or None."""
    if len(leg.calls) == expected_calls:
        return None
    return UNREACHED.format(calls=len(leg.calls))


def path_of(leg: Leg) -> str:
    """The kernel that ran, told from the scratch: 3D writes it and 2D leaves it alone."""
    return "3D" if leg.scratch_written else "2D"


def measure_leg(
    measure: Any,
    case: str,
    flag: int,
    leg: Leg,
    expected: str | None = None,
    tokens: int | None = None,
) -> bool:
    """Record what one leg did; returns whether its numbers mean anything.

    Args:
        measure: the recorder.
        case: its name.
        flag: of the leg.
        leg: what it did.
        expected: where arms differ in the reason, the one of this arm; recorded is whether it was given.
        tokens: how many of the batch belong to a sequence; all, unless told.
    """
    reason = unusable(leg)
    given = leg.reasons[0] if leg.reasons else "no dispatch line"

    def record(metric: str, value: Any, unit: str) -> None:
        measure(case, f"{metric}_flag{flag}", None if reason else value, unit=unit, reason=reason)

    measure(case, f"launches_flag{flag}", len(leg.calls), unit="calls")
    record("path", path_of(leg), "name")
    if expected is None:
        record("reasons", given, "name")
    else:
        record("reasons_right", given == expected, "bool")
    record("finite", bool(leg.output[:tokens].isfinite().all()), "bool")
    return reason is None
