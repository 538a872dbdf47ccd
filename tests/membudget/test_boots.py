"""Real boots on this lane's GPU: the rows of its memory table, and breaks that must be seen."""

from __future__ import annotations

from typing import Any

import pytest
from armlib.boots import IN_PROCESS, LANE, arms, refuse

from ci.commands.boots import RowBoots, Session, bands
from ci.commands.review import out_folder
from ci.engine.profile import load_profile
from ci.errors import ExitCode
from ci.gate.membudget import judge_row
from ci.gate.verdict import Verdict
from ci.results.boot import Measured

PROFILES = {"rtx3090": "rtx3090-memory", "rtx4090": "rtx4090-memory"}
"""Every other GPU boots the dummy."""
PROFILE = load_profile(PROFILES.get(LANE, "any-gpu-dummy7"))
BREAK_PROFILE = load_profile("any-gpu-dummy8")
REFERENCE = "token-units"
DUMMY_ROWS = (32, 16)
"""What the plan has for other GPUs: smaller rows plan so few bytes that they say little."""
ORDER = sorted(PROFILE.serve.max_num_seqs if LANE in PROFILES else DUMMY_ROWS, reverse=True)
"""The rows that say most come first: where time runs out, the small ones are missing."""


def session_of(profile: Any, folder: str | None = None) -> Session:
    """The boots of a profile, kept outside the run folder so that another run goes on with them."""
    return Session(profile, LANE, out_folder("boots", LANE, folder or profile.name), arms(), IN_PROCESS)


def row(seqs: int) -> RowBoots:
    """The boots of a row, kept from an earlier call or made now."""
    return session_of(PROFILE).row(seqs, REFERENCE, bands().get(LANE))


def findings(one: RowBoots, verdict: Verdict) -> list[str]:
    """Rules of this verdict, each with what was found."""
    return [f"{found.rule}: {found.detail}" for found in one.row.findings if found.verdict is verdict]


def check(one: RowBoots) -> None:
    """Refuse boots that must not be compared."""
    refuse(findings(one, Verdict.INVALID), remedy="its boots are kept: look at their logs")


def difference(larger: Measured, smaller: Measured) -> tuple[int | None, str | None]:
    """A difference, or why there is none."""
    if larger.value is None or smaller.value is None:
        return None, larger.reason or smaller.reason or "not read"
    return larger.value - smaller.value, None


@pytest.mark.parametrize("seqs", ORDER)
def test_row(measure: Any, gpu: None, seqs: int) -> None:
    """The budget falls and model loading rises by the scratch, all builders adopt, stock repeats."""
    one = row(seqs)
    stock, after = one.stock[0], one.patched
    case = f"boots-{seqs}"
    changes = {
        "load_rise": (after.model_load, stock.model_load, "bytes"),
        "kv_fall": (stock.available_kv, after.available_kv, "bytes"),
        "token_fall": (stock.kv_tokens, after.kv_tokens, "tokens"),
        "free_rise": (after.free_after_boot, stock.free_after_boot, "bytes"),
    }
    for metric, (larger, smaller, unit) in changes.items():
        value, reason = difference(larger, smaller)
        measure(case, metric, value, unit=unit, reason=reason)
    measure(case, "at_load", after.loaded.value, unit="bytes", reason=after.loaded.reason)
    measure(case, "late_lines", after.late_lines, unit="lines")
    broken = findings(one, Verdict.REGRESSED)
    measure(case, "broken_rules", len(broken), unit="rules")
    assert not broken, "\n".join(broken)
    check(one)


def test_unpatched_boot_is_seen(measure: Any, gpu: None) -> None:
    """The reference boot, judged as if it were the patched one, breaks a rule."""
    one = row(ORDER[0])
    check(one)
    unpatched = judge_row(one.stock, one.stock[1], bands().get(LANE))
    red = any(finding.verdict is Verdict.REGRESSED for finding in unpatched.findings)
    measure.control("control-unpatched", red=red)
    assert red


@pytest.mark.parametrize("name", ["sequence-units", "declared-8"])
def test_break_is_seen(measure: Any, gpu: None, name: str) -> None:
    """Rows in sequence units refuse to boot; a declared capacity of 8 counts breaches of 9 tokens."""
    session = session_of(BREAK_PROFILE)
    session.in_process = True
    seen = session.broken(name) is ExitCode.PASS
    measure.control(f"control-break-{name}", red=seen)
    assert seen
