"""More tokens than the declared capacity: counted, served by 2D, and the first specimen is kept."""

from __future__ import annotations

from typing import Any

from cases import CAPACITY
from child import run_child

CASE = "breach-[16,16,16]"


def test_breach(measure: Any) -> None:
    """48 tokens, then 64, against a declared capacity of 32."""
    calls = run_child("breach")
    last = calls[-1]
    launches = sum(call["launches"] for call in calls)
    measure(CASE, "launches_flag1", launches, unit="calls")
    measure(CASE, "path_flag1", last["path"], unit="name")
    measure(CASE, "reasons_flag1", last["reasons"], unit="name")
    measure(CASE, "finite_flag1", all(call["finite"] for call in calls), unit="bool")
    measure(CASE, "launcher_ref_flag1", max(call["launcher_ref"] for call in calls), unit="abs")
    measure(CASE, "count_after_first", calls[0]["state"]["count"], unit="breaches")
    measure(CASE, "count_after_second", last["state"]["count"], unit="breaches")
    measure(CASE, "degraded", last["state"]["degraded"], unit="bool")
    measure(CASE, "first_tokens", last["state"]["first_tokens"], unit="tokens")
    measure(CASE, "first_declared", last["state"]["first_declared"], unit="tokens")
    assert launches == len(calls) == 2
    assert [call["reasons"] for call in calls] == [CAPACITY, CAPACITY]
    assert last["state"] == {"count": 2, "degraded": True, "first_tokens": 48, "first_declared": 32}
