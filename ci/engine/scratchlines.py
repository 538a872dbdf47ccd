"""What a boot says about the split-KV scratch: with its plan as JSON, or in the older form as text."""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass
from typing import cast

from ci.engine.logtext import LogLine, Source
from ci.engine.units import parse_size


class ScratchEvent(enum.Enum):
    """What happened to a set of buffers."""

    LOADED = "allocated at model load"
    ADOPTED = "adopted"
    LATE = "allocated after the profile"


WORDS: tuple[tuple[ScratchEvent, re.Pattern[str]], ...] = (
    (ScratchEvent.LATE, re.compile(r"AFTER the memory profile|allocated at (?:the )?metadata builder")),
    (ScratchEvent.LOADED, re.compile(r"allocated at model load")),
    (ScratchEvent.ADOPTED, re.compile(r"adopted by the metadata builder")),
)
"""The sizing patch allocates in the builder and does not say that it is late. A line may name where an
adopted set came from, so the first words count; that something is late counts wherever it stands."""
ABOUT = re.compile(r"scratch", re.IGNORECASE)
SIZE = re.compile(r"(?<![\d.])(?P<value>\d[\d,]{0,19}(?:\.\d{1,20})?) ?(?P<unit>[GMK]i?B|B|bytes)\b")
PARTIALS = "packed_partials"
CAPACITY = re.compile(r"(?:capacity|declares?d?)\D{0,20}(?P<value>\d{1,18})(?!\d)")


@dataclass(frozen=True)
class ScratchLine:
    """One line about the scratch; None for what it does not say."""

    event: ScratchEvent
    line: int
    source: Source
    bytes: int | None
    resolution_bytes: int
    """1 for a plan in JSON, more for a printed size."""
    capacity: int | None
    """Query tokens."""
    heads_q: int | None
    max_num_seqs: int | None
    problem: str | None = None
    """Why the plan on the line cannot be used: it is cut, or its numbers do not follow from its inputs."""


def read_scratch_line(line: LogLine) -> ScratchLine | None:
    """The line's scratch event, or None if it is about something else."""
    if not ABOUT.search(line.text):
        return None
    said = [(match.start(), event) for event, words in WORDS if (match := words.search(line.text))]
    if not said:
        return None
    late = any(event is ScratchEvent.LATE for _, event in said)
    event = ScratchEvent.LATE if late else min(said, key=lambda one: one[0])[1]
    start = line.text.find("{")
    if start >= 0:
        return from_json(line, event, start)
    size = SIZE.search(line.text)
    parsed = parse_size(size["value"], size["unit"]) if size else None
    capacity = CAPACITY.search(line.text)
    return ScratchLine(
        event=event,
        line=line.number,
        source=line.source,
        bytes=parsed.bytes if parsed else None,
        resolution_bytes=parsed.resolution_bytes if parsed else 1,
        capacity=int(capacity["value"]) if capacity else None,
        heads_q=None,
        max_num_seqs=None,
    )


def from_json(line: LogLine, event: ScratchEvent, start: int) -> ScratchLine:
    """The plan on the line; a wrapped plan is read with its rest."""
    for text in (line.text, line.wrapped or ""):
        try:
            plan, _ = json.JSONDecoder().raw_decode(text[start:])
        except (ValueError, RecursionError):
            continue
        if isinstance(plan, dict):
            return from_plan(line, event, plan)
    return ScratchLine(
        event, line.number, line.source, None, 1, None, None, None, "its plan is cut or damaged"
    )


def from_plan(line: LogLine, event: ScratchEvent, plan: dict[str, object]) -> ScratchLine:
    """The line of a whole plan, recomputed."""
    return ScratchLine(
        event=event,
        line=line.number,
        source=line.source,
        bytes=count(plan, "total_bytes"),
        resolution_bytes=1,
        capacity=count(plan, "capacity"),
        heads_q=count(plan, "num_heads_q"),
        max_num_seqs=count(plan, "max_num_seqs"),
        problem=recompute(plan),
    )


def count(plan: dict[str, object], name: str) -> int | None:
    """A whole number of the plan."""
    value = plan.get(name)
    return value if type(value) is int else None


def recompute(plan: dict[str, object]) -> str | None:
    """What in the plan does not follow from its inputs; None if all does."""
    names = (
        *("max_num_batched_tokens", "max_num_seqs", "seq_threshold_3D", "max_query_len_3d"),
        *("num_heads_q", "num_segments", "headdim_padded", "capacity", "row_bytes", "total_bytes"),
    )
    missing = [name for name in names if count(plan, name) is None]
    if missing:
        return f"its plan lacks {', '.join(missing)}"
    tokens, seqs, threshold, per_seq, heads, segments, size, capacity, row, total = (
        cast(int, plan[name]) for name in names
    )
    expected = (
        min(tokens, min(seqs, threshold) * per_seq),
        heads * segments * (size + 2) * 4,
        capacity * row,
    )
    if (capacity, row, total) != expected:
        return f"its plan says {(capacity, row, total)} where its inputs give {expected}"
    return recompute_partials(plan, heads * (size * 2 + 4), total)


def recompute_partials(plan: dict[str, object], partial_bytes: int, total: int) -> str | None:
    """What is wrong with the half-precision partials that a plan promises; None if they fill its bytes.

    Args:
        plan: of an arm whose packed kernel keeps them in the same scratch.
        partial_bytes: of one in all heads, with its log-sum in fp32.
        total: bytes of the plan.
    """
    if PARTIALS not in plan:
        return None
    partials = count(plan, PARTIALS)
    if partials is None or partials * partial_bytes != total:
        return f"its plan says {plan[PARTIALS]!r} partials of {partial_bytes} B in {total} B"
    return None
