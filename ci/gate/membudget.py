"""What two boots of one session say about the memory budget: pure rules over bytes.

The figures come from boot reports or from published tables; nothing here reads a file.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class BudgetStep:
    """What changed from one `max_num_seqs` to the next larger one, within one arm."""

    smaller: int
    larger: int
    scratch_bytes: int
    """By how much the scratch grew."""
    budget_bytes: int
    """By how much the KV budget fell."""

    @property
    def untracked_bytes(self) -> int:
        """Scratch that the budget did not make room for; at most zero when it tracks the scratch."""
        return self.scratch_bytes - self.budget_bytes


def budget_steps(rows: Sequence[tuple[int, int, int]]) -> list[BudgetStep]:
    """Steps between neighbouring rows of (`max_num_seqs`, scratch bytes, available KV bytes)."""
    ordered = sorted(rows)
    return [
        BudgetStep(first[0], second[0], second[1] - first[1], first[2] - second[2])
        for first, second in itertools.pairwise(ordered)
    ]


def untracked_steps(steps: Sequence[BudgetStep], band_bytes: int) -> list[BudgetStep]:
    """Steps in which the budget fell by less than the scratch grew, by more than the band.

    The budget also pays for state per sequence, so it may fall by more; a budget that falls by less
    was fixed before the scratch was allocated.
    """
    return [step for step in steps if step.untracked_bytes > band_bytes]
