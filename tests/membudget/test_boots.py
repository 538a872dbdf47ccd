"""Real boots on this lane's GPU: the rows of its memory table, and breaks that must be seen."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci.commands.boots import Session, bands
from ci.commands.review import out_folder
from ci.engine.profile import load_profile
from ci.errors import ExitCode
from ci.gate.membudget import judge_row
from ci.gate.verdict import Verdict
from ci.results.boot import Measured
from ci.stack.manifest import read_manifest

LANE = os.environ.get("FORKPROOF_LANE", "cpu")
PROFILES = {"rtx3090": "rtx3090-memory", "rtx4090": "rtx4090-memory"}
"""Every other GPU boots the dummy."""
PROFILE = load_profile(PROFILES.get(LANE, "any-gpu-dummy7"))
BREAK_PROFILE = load_profile("any-gpu-dummy8")
IN_PROCESS = os.environ.get("FORKPROOF_IN_PROCESS") == "1"
"""Set where vLLM's server cannot run; numbers are then exact."""
REFERENCE = "token-units"
DUMMY_ROWS = (32, 16)
"""What the plan has for other GPUs: smaller rows plan so few bytes that they say little."""
ORDER = sorted(PROFILE.serve.max_num_seqs if LANE in PROFILES else DUMMY_ROWS, reverse=True)
"""The rows that say most come first: where time runs out, the small ones are missing."""


def session_of(profile: Any, folder: str | None = None) -> Session:
    """The boots of a profile, kept outside the run folder so that another run goes on with them."""
    roots = json.loads(os.environ["FORKPROOF_ARM_ROOTS"])
    arms: Any = {
        name: SimpleNamespace(name=name, root=Path(root), manifest=read_manifest(Path(root)))
        for name, root in roots.items()
    }
    return Session(profile, LANE, out_folder("boots", LANE, folder or profile.name), arms, IN_PROCESS)


@pytest.fixture(scope="session")
def rows(gpu: None) -> dict[int, Any]:
    """Rows that were booted, by max_num_seqs."""
    return {}


def difference(larger: Measured, smaller: Measured) -> tuple[int | None, str | None]:
    """A difference, or why there is none."""
    if larger.value is None or smaller.value is None:
        return None, larger.reason or smaller.reason or "not read"
    return larger.value - smaller.value, None


@pytest.mark.parametrize("seqs", ORDER)
def test_row(measure: Any, rows: dict[int, Any], seqs: int) -> None:
    """The budget falls and model loading rises by the scratch, all builders adopt, stock repeats."""
    one = session_of(PROFILE).row(seqs, REFERENCE, bands().get(LANE))
    rows[seqs] = one
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
    broken = [one for one in one.row.findings if one.verdict in (Verdict.REGRESSED, Verdict.INVALID)]
    measure(case, "broken_rules", len(broken), unit="rules")
    assert not broken, "\n".join(f"{one.rule}: {one.detail}" for one in broken)


def test_unpatched_boot_is_seen(measure: Any, rows: dict[int, Any]) -> None:
    """The reference boot, judged as if it were the patched one, breaks a rule."""
    one = rows[ORDER[0]]
    row = judge_row(one.stock, one.stock[1], bands().get(LANE))
    red = any(finding.verdict is Verdict.REGRESSED for finding in row.findings)
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
