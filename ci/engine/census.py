"""Dispatch lines of a boot as a table: which batches took which kernel, and why.

A call inside a CUDA graph prints when it is captured and never when it is replayed. So the census of a boot
with graphs counts captures, and says of its steps that it has not seen them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ci.engine.logtext import LogLine

LINE = re.compile(
    r"int4 mq3d dispatch: tokens=(?P<tokens>\d+) num_seqs=(?P<seqs>\d+) max_seqlen_q=(?P<longest>\d+) "
    r"path=(?P<path>2D|3D) reasons=(?P<reasons>\S.*?)\s*$"
)
VERIFY_TOKENS = 16
"""Query tokens per sequence up to which a batch is a verify batch; longer ones are prefill chunks."""
BAND = range(9, 17)
"""Query tokens of the batches that the sizing was written for."""
CAPACITY_FAILED = "q_token_capacity_failed"


@dataclass(frozen=True)
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
    graphs: bool
    """True if decode steps replay captured graphs: then most steps printed nothing."""

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
        if self.graphs:
            return None
        band = sum(
            number for batch, number in self.calls.items() if self.decodes(batch) and batch.tokens in BAND
        )
        decode = sum(number for batch, number in self.calls.items() if self.decodes(batch))
        return band // layers, decode // layers

    @staticmethod
    def decodes(batch: Batch) -> bool:
        """Whether a batch is a decode step."""
        return batch.longest <= VERIFY_TOKENS


def take_census(lines: Iterable[LogLine], graphs: bool) -> Census:
    """Count the dispatch lines of a log."""
    calls: Counter[Batch] = Counter()
    for line in lines:
        match = LINE.search(line.text)
        if match:
            shape = (int(match["tokens"]), int(match["seqs"]), int(match["longest"]))
            calls[Batch(*shape, match["path"], match["reasons"])] += 1
    return Census(dict(calls), graphs)


def broken_rules(census: Census, widths: Iterable[int]) -> list[str]:
    """What a depth-15 boot breaks: every width seen and on 3D, no capacity fallback; empty if nothing."""
    broken = []
    if not census.calls:
        broken.append("no dispatch line: VLLM_INT4_MQ_3D_DEBUG was off, or no int4 attention ran")
    paths = census.band_widths
    for width in widths:
        if width not in paths:
            broken.append(f"no batch of width {width} was seen")
        elif paths[width] != {"3D"}:
            broken.append(f"width {width} took {' and '.join(sorted(paths[width]))}")
    if census.capacity_fallbacks:
        broken.append(f"{census.capacity_fallbacks} calls fell back for lack of scratch rows")
    return broken
