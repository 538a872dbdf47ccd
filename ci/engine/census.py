"""Dispatch lines of a boot, counted, and the questions that bring every width of batch into one.

A call inside a CUDA graph prints when it is captured and never when it is replayed. So the census of a boot
whose attention is captured counts captures, and says of its steps that it has not seen them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from ci.engine.logtext import LogLine
from ci.engine.patterns import DEGRADED, EAGER
from ci.results.census import BAND, UNKNOWN_MODE, VERIFY_TOKENS, Batch, Census

LINE = re.compile(
    r"int4 mq3d dispatch: tokens=(?P<tokens>\d{1,18}) num_seqs=(?P<seqs>\d{1,18}) "
    r"max_seqlen_q=(?P<longest>\d{1,18}) path=(?P<path>2D|3D) reasons=(?P<reasons>\S.*?)\s*$"
)
STARTED = re.compile(r"int4 mq3d dispatch: ")
"""A dispatch line, whole or not."""
MODE = re.compile(r"\bcudagraph_mode['\"]?\s*[=:]\s*<?(?:CUDAGraphMode\.)?(?P<mode>[A-Z][A-Z_]+)")
EAGER_MODE = "NONE"


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
