"""The defect's signature: the KV budget moves with other things than the scratch."""

from __future__ import annotations

from typing import Any

from boot import LOAD, SERVING, boot
from model import Setting

from ci.gate.membudget import BudgetStep, budget_steps, untracked_steps

MIB = 2**20
SEQS = (8, 16, 32, 64)
PUBLISHED = [
    BudgetStep(8, 16, 226 * MIB, 30 * MIB),
    BudgetStep(16, 32, 452 * MIB, 180 * MIB),
    BudgetStep(32, 64, 0, 250 * MIB),
]
"""`token-units` on an RTX 3090: what the scratch grew by, and what the KV budget gave up."""
PRINT_RESOLUTION = 10_737_418
"""0.01 GiB: boot lines print no more, so a published difference is good to this."""


def test_budget_tracks_scratch(measure: Any) -> None:
    """From one number of sequences to the next, the profile counts exactly what the scratch grew by."""
    rows = []
    for seqs in SEQS:
        account = boot(Setting(seqs))
        rows.append((seqs, account.bytes_in(LOAD, SERVING), -account.counted_bytes))
    steps = budget_steps(rows)
    untracked = untracked_steps(steps, band_bytes=0)
    measure("signature", "untracked_steps", len(untracked), unit="steps")
    measure("signature", "scratch_growth", sum(step.scratch_bytes for step in steps), unit="bytes")
    assert not untracked
    assert [step.scratch_bytes == step.budget_bytes for step in steps] == [True] * 3


def test_published_rows_do_not_track(measure: Any) -> None:
    """In the published boots without the pool two steps of three were not paid for."""
    untracked = untracked_steps(PUBLISHED, PRINT_RESOLUTION)
    measure.control(
        "control-budget-ignores-scratch",
        red=bool(untracked),
        metric="untracked_steps",
        value=len(untracked),
        unit="steps",
    )
    assert [(step.smaller, step.larger) for step in untracked] == [(8, 16), (16, 32)]
