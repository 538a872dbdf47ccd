"""Dispatch lines of a boot as a table: which batches took which kernel, and why.

A call inside a CUDA graph prints when it is captured and never when it is replayed. So the census of a boot
whose attention is captured counts captures, and says of its steps that it has not seen them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ci.engine.logtext import LogLine
from ci.engine.patterns import DEGRADED, EAGER

LINE = re.compile(
    r"int4 mq3d dispatch: tokens=(?P<tokens>\d{1,18}) num_seqs=(?P<seqs>\d{1,18}) "
    r"max_seqlen_q=(?P<longest>\d{1,18}) path=(?P<path>2D|3D) reasons=(?P<reasons>\S.*?)\s*$"
)
STARTED = re.compile(r"int4 mq3d dispatch: ")
"""A dispatch line, whole or not."""
MODE = re.compile(r"\bcudagraph_mode['\"]?\s*[=:]\s*<?(?:CUDAGraphMode\.)?(?P<mode>[A-Z][A-Z_]+)")
EAGER_MODE = "NONE"
UNKNOWN_MODE = "unknown"
CAPTURED = "FULL"
"""In the name of a mode that captures attention with the rest of a step."""
VERIFY_TOKENS = 16
"""Query tokens per sequence up to which a batch is a verify batch; longer ones are prefill chunks."""
BAND = range(9, 17)
"""Query tokens of the batches that the sizing was written for."""
CAPACITY_FAILED = "q_token_capacity_failed"
POLICY = "max_query_len_policy"
"""Why a prefill chunk stays on the 2D kernel."""
HEADER = ("query tokens", "sequences", "longest", "path", "reason", "calls")


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


def take_census(lines: Iterable[LogLine], graph_mode: str | None = None) -> Census:
    """Count the dispatch lines of a log.

    Args:
        lines: of the log.
        graph_mode: where it is known from elsewhere; otherwise the log's own words.
    """
    calls: Counter[Batch] = Counter()
    said, degraded, cut = UNKNOWN_MODE, 0, 0
    for line in lines:
        said = mode_of(line.text) or said
        degraded += bool(DEGRADED.search(line.text))
        match = LINE.search(line.text)
        if match:
            shape = (int(match["tokens"]), int(match["seqs"]), int(match["longest"]))
            calls[Batch(*shape, match["path"], match["reasons"])] += 1
        elif STARTED.search(line.text):
            cut += 1
    return Census(dict(calls), graph_mode or said, degraded, cut)


def mode_of(text: str) -> str | None:
    """The graph mode that a line names, the last word of it; None if it names none."""
    if EAGER.search(text):
        return EAGER_MODE
    found = None
    for match in MODE.finditer(text):
        found = match["mode"]
    return found


def verify_widths(depth: int) -> range:
    """The widths of the band that a drafter of this depth can ask for: its tokens and the one before them."""
    return range(BAND.start, min(BAND.stop, depth + 2))


def broken_rules(census: Census, widths: Iterable[int], breaches: int | None = 0) -> list[str]:
    """What a boot breaks: each width seen and on 3D, no capacity fallback, no breach; empty if nothing.

    Args:
        census: of the boot.
        widths: that must have been seen.
        breaches: that the engine counted; None if it was not asked.
    """
    broken = []
    if not census.calls:
        broken.append("no dispatch line: VLLM_INT4_MQ_3D_DEBUG was off, or no int4 attention ran")
    if census.cut_lines:
        broken.append(f"{census.cut_lines} dispatch lines are cut: the log is damaged")
    paths = census.band_widths
    for width in widths:
        if width not in paths:
            broken.append(f"no batch of width {width} was seen")
    for width, seen in sorted(paths.items()):
        if seen != {"3D"}:
            broken.append(f"width {width} took {' and '.join(sorted(seen))}")
    if census.capacity_fallbacks:
        broken.append(f"{census.capacity_fallbacks} calls fell back for lack of scratch rows")
    strays = sum(
        number
        for batch, number in census.calls.items()
        if not census.decodes(batch) and (batch.path != "2D" or POLICY not in batch.reasons)
    )
    if strays:
        broken.append(f"{strays} prefill calls were not on 2D by the policy of query length")
    if breaches is None:
        broken.append("the count of breaches was not read")
    if breaches or census.degraded_lines:
        broken.append(f"{breaches or 'some'} breaches, {census.degraded_lines} lines that say so")
    return broken


def table_rows(census: Census) -> list[tuple[str, ...]]:
    """The table, one row per shape, path and reason, smallest batches first; see HEADER."""
    return [
        (str(one.tokens), str(one.seqs), str(one.longest), one.path, one.reasons, str(number))
        for one, number in sorted(census.calls.items())
    ]


def facts(census: Census, layers: int | None) -> list[str]:
    """What stands under the table, one sentence each."""
    mode = f"graph mode {census.graph_mode}"
    if census.hides_steps:
        share = f"{mode}: replayed steps print nothing, so steps are unseen; the calls above were captured"
    else:
        calls = (census.band_calls, census.count(verify=True))
        band, decode = (layers and census.band_share(layers)) or calls
        what = "decode steps" if layers else "calls of decode steps"
        share = f"{mode}: every step printed; {band} of {decode} {what} in the band of 9 to 16 query tokens"
    verify, prefill = census.count(verify=True), census.count(verify=False)
    return [
        share,
        f"{verify} calls of verify batches, {census.count(path='3D', verify=True)} of them on 3D",
        f"{prefill} calls of prefill chunks, {census.count(path='2D', verify=False)} of them on 2D",
        f"{census.capacity_fallbacks} calls fell back for lack of scratch rows",
    ]


def questions(max_model_len: int, max_num_seqs: int) -> list[tuple[list[list[int]], int]]:
    """Prompts, as token numbers, and tokens to generate, from which a boot forms every width it can.

    Near the end of the context the scheduler cuts a draft to what still fits, so the widths come down
    to one; and a short prompt is a batch of just its length. Both for one sequence; the first also for
    two and more at once.

    Raises:
        ValueError: the context is too short for that.
    """
    room = 2 * VERIFY_TOKENS
    if max_model_len < 4 * room:
        raise ValueError(f"a context of {max_model_len} tokens is too short for a census")
    asked = [
        ([prompt(max_model_len - room - index) for index in range(seqs)], room)
        for seqs in range(1, min(max_num_seqs, 4) + 1)
    ]
    return asked + [([prompt(width)], 4) for width in BAND]


def prompt(length: int) -> list[int]:
    """Token numbers that every vocabulary has."""
    return [100 + (7 * index) % 150 for index in range(length)]
