"""How many attention calls of each kind a boot printed: which batches took which kernel, and why."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN_MODE = "unknown"
CAPTURED = "FULL"
"""In the name of a mode that captures attention with the rest of a step."""
VERIFY_TOKENS = 16
"""Query tokens per sequence up to which a batch is a verify batch; longer ones are prefill chunks."""
BAND = range(9, 17)
"""Query tokens of the batches that the sizing was written for."""
CAPACITY_FAILED = "q_token_capacity_failed"


@dataclass(frozen=True, order=True)
class Batch:
    """The shape of one attention call and what became of it."""

    tokens: int
    seqs: int
    longest: int
    """Query tokens of the longest sequence."""
    path: str
    reasons: str


@dataclass(frozen=True)
class Census:
    """How many calls of each kind a boot printed."""

    calls: dict[Batch, int]
    graph_mode: str
    """vLLM's name of it: NONE, PIECEWISE, FULL_AND_PIECEWISE ...; `unknown` where the log does not say."""
    degraded_lines: int = 0
    """Lines that report a breach; only the first of a process has one."""
    cut_lines: int = 0
    """Dispatch lines that are not whole."""

    @property
    def hides_steps(self) -> bool:
        """Whether decode steps may replay a captured attention, which prints nothing."""
        return self.graph_mode == UNKNOWN_MODE or CAPTURED in self.graph_mode

    def count(self, *, path: str | None = None, verify: bool | None = None) -> int:
        """Calls of one path, of verify batches or of prefill chunks."""
        return sum(
            number
            for batch, number in self.calls.items()
            if path in (None, batch.path) and verify in (None, batch.longest <= VERIFY_TOKENS)
        )

    @property
    def capacity_fallbacks(self) -> int:
        """Accepted batches that did not fit the scratch."""
        return sum(number for batch, number in self.calls.items() if CAPACITY_FAILED in batch.reasons)

    @property
    def band_calls(self) -> int:
        """Calls of decode steps whose batch lies in the band."""
        return sum(
            number for batch, number in self.calls.items() if self.decodes(batch) and batch.tokens in BAND
        )

    @property
    def band_widths(self) -> dict[int, set[str]]:
        """Per width in the 9 to 16 band, in query tokens of the longest sequence: the paths seen."""
        found: dict[int, set[str]] = {}
        for batch in self.calls:
            if batch.longest in BAND:
                found.setdefault(batch.longest, set()).add(batch.path)
        return found

    def band_share(self, layers: int) -> tuple[int, int] | None:
        """Steps whose batch lies in the band, and all decode steps; None where graphs hide steps.

        Args:
            layers: attention layers that print one line each per step.
        """
        if self.hides_steps:
            return None
        return self.band_calls // layers, self.count(verify=True) // layers

    @staticmethod
    def decodes(batch: Batch) -> bool:
        """Whether a batch is a decode step."""
        return batch.longest <= VERIFY_TOKENS
