"""What one boot said: numbers with their unit, writer and line, and how the boot ended.

A number that is not in the log is absent with a reason, never zero. A boot has succeeded only when the server
said so or answered: the memory lines come before the steps that fail most often.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ci.engine import patterns
from ci.engine.logtext import LogLine, Source, read_log
from ci.engine.patterns import Kind, Quantity
from ci.engine.scratchlines import ScratchEvent, ScratchLine, read_scratch_line
from ci.engine.units import parse_size

MAX_CAUSE = 200
"""Characters of an exception that are kept."""
END_MARK = "forkproof boot log ends here: "
"""The harness's own last line, with what it saw from outside; a log without it may be cut."""


class Outcome(enum.Enum):
    """How a boot ended."""

    READY = "ready"
    FAILED = "failed"
    UNFINISHED = "unfinished"
    """Neither said that it serves nor that it failed: still booting, killed, or a log that was cut."""


class Lineage(enum.Enum):
    """Which compiled code a boot ran."""

    COLD = "compiled here"
    WARM = "loaded from a cache"
    """One line that says so is enough, whatever else was compiled."""
    DISABLED = "cache disabled"
    EAGER = "not compiled"
    UNKNOWN = "not said"


@dataclass(frozen=True)
class Reading:
    """One number of one line."""

    value: float
    """Bytes of a size; otherwise as printed."""
    resolution: float
    """The last printed digit, in the same unit."""
    printed: str
    source: Source
    line: int


@dataclass(frozen=True)
class Figure:
    """All readings of one quantity, or why there are none."""

    readings: tuple[Reading, ...]
    reason: str | None = None

    @property
    def smallest(self) -> Reading | None:
        """The reading that binds where ranks differ."""
        return min(self.readings, key=lambda reading: reading.value, default=None)

    @property
    def largest(self) -> Reading | None:
        """The largest reading."""
        return max(self.readings, key=lambda reading: reading.value, default=None)

    @property
    def total(self) -> float | None:
        """Sum over the ranks, the last reading of each."""
        last = {reading.source.key: reading.value for reading in self.readings}
        return sum(last.values()) if last else None

    def of(self, key: str) -> float | None:
        """Last value of one writer or stage."""
        found = [
            one.value for one in self.readings if key in (one.source.key, one.source.rank, one.source.stage)
        ]
        return found[-1] if found else None


@dataclass(frozen=True)
class EndMark:
    """What the harness saw when it closed the log."""

    healthy: bool
    served: int
    """Requests answered with text."""
    exited: bool = False
    """Whether the server was gone before anybody ended it."""


@dataclass(frozen=True)
class BootReport:
    """One boot, as its log tells it."""

    name: str
    outcome: Outcome
    cause: str | None
    """Why it failed, if the log shows it; the line stands at the end."""
    stage: str | None
    """How far it came, in the words of `patterns.STAGES`; None if it did not even load a model."""
    figures: dict[Quantity, Figure]
    scratch: tuple[ScratchLine, ...]
    lineage: Lineage
    warm_lines: tuple[int, ...]
    """Lines that prove the use of somebody else's compiled code."""
    backend: str | None
    captures: tuple[int, ...] | None
    """CUDA-graph capture sizes in tokens."""
    engine: str | None
    """`v0` or `v1`."""
    device: str | None
    """`cpu` where a CPU worker wrote the lines that speak of a GPU."""
    vllm: str | None
    oom_ranks: tuple[str, ...]
    degraded_lines: int
    end: EndMark | None

    def figure(self, quantity: Quantity) -> Figure:
        """The figure of a quantity; without readings it has a reason."""
        return self.figures[quantity]

    @property
    def whole(self) -> bool:
        """Whether the log was closed by the harness, after the server had answered."""
        return (
            self.end is not None
            and self.end.healthy
            and self.end.served > 0
            and self.outcome is Outcome.READY
        )

    def scratch_of(self, event: ScratchEvent) -> tuple[ScratchLine, ...]:
        """Lines that report this event."""
        return tuple(line for line in self.scratch if line.event is event)


def read_boot_log(data: bytes, name: str, healthy: bool | None = None) -> BootReport:
    """Read a boot log.

    Args:
        data: the log as it was written.
        name: how messages call it, usually its path.
        healthy: what /health said, where it was asked; None if it was not.
    """
    lines = read_log(data)
    end = end_mark(lines)
    seen = end.healthy if end and healthy is None else healthy
    outcome, cause = how_it_ended(lines, seen, exited=end is not None and end.exited)
    text = "\n".join(line.text for line in lines)
    return BootReport(
        name=name,
        outcome=outcome,
        cause=cause,
        stage=stage_of(lines),
        figures={quantity: figure_of(quantity, lines, name) for quantity in Quantity},
        scratch=tuple(one for one in map(read_scratch_line, lines) if one),
        lineage=lineage_of(text),
        warm_lines=tuple(line.number for line in lines if patterns.WARM.search(line.text)),
        backend=last_value(patterns.BACKEND, text),
        captures=captures_of(text),
        engine="v1" if patterns.V1.search(text) else "v0" if patterns.V0.search(text) else None,
        device="cpu" if patterns.CPU_DEVICE.search(text) else None,
        vllm=last_value(patterns.ENGINE_VERSION, text),
        oom_ranks=oom_ranks(lines),
        degraded_lines=sum(bool(patterns.DEGRADED.search(line.text)) for line in lines),
        end=end,
    )


def lineage_of(text: str) -> Lineage:
    """What the log proves about compiled code."""
    for lineage, words in (
        (Lineage.WARM, patterns.WARM),
        (Lineage.DISABLED, patterns.CACHE_OFF),
        (Lineage.COLD, patterns.COMPILED),
        (Lineage.EAGER, patterns.EAGER),
    ):
        if words.search(text):
            return lineage
    return Lineage.UNKNOWN


def figure_of(quantity: Quantity, lines: Sequence[LogLine], name: str) -> Figure:
    """Every reading of one quantity."""
    wordings = [pattern for pattern in patterns.PATTERNS if pattern.quantity is quantity]
    readings = finest([reading for line in lines for reading in readings_in(line, wordings)])
    if readings:
        return Figure(readings)
    last = lines[-1].number if lines else 0
    reason = f"{name}: no line of {last} says {quantity.value}"
    if quantity is Quantity.AVAILABLE_KV and any("skipped memory profiling" in line.text for line in lines):
        reason = f"{name}: the KV cache was given in bytes, so the memory profile was skipped"
    return Figure((), reason)


def readings_in(line: LogLine, wordings: Sequence[patterns.Pattern]) -> Iterator[Reading]:
    """Readings of one line: as it stands, or with its rest when it says nothing alone."""
    for wording in wordings:
        match = wording.regex.search(line.text)
        if match is None and line.wrapped:
            match = wording.regex.search(line.wrapped)
        if match:
            yield reading(line, wording.kind, match)


def reading(line: LogLine, kind: Kind, match: re.Match[str]) -> Reading:
    """The reading of one match."""
    digits = match["value"]
    if kind is Kind.SIZE:
        size = parse_size(digits, match["unit"])
        return Reading(size.bytes, size.resolution_bytes, size.printed, line.source, line.number)
    plain = digits.replace(",", "")
    decimals = len(plain.partition(".")[2])
    value = int(plain) if kind is Kind.COUNT else float(plain)
    return Reading(value, 10.0**-decimals, digits, line.source, line.number)


def finest(readings: Sequence[Reading]) -> tuple[Reading, ...]:
    """One reading where a writer says one number twice: the more finely printed one."""
    kept: list[Reading] = []
    for one in readings:
        twin = next((other for other in kept if same_number(one, other)), None)
        if twin is None:
            kept.append(one)
        elif one.resolution < twin.resolution:
            kept[kept.index(twin)] = one
    return tuple(kept)


def same_number(first: Reading, second: Reading) -> bool:
    """Whether one writer said the same number twice, within the coarser print."""
    writer = (first.source.key, first.source.pid) == (second.source.key, second.source.pid)
    return writer and abs(first.value - second.value) <= max(first.resolution, second.resolution) / 2 + 1e-9


def end_mark(lines: Sequence[LogLine]) -> EndMark | None:
    """The harness's last line, if it really is the last one and counts the lines before it."""
    if not lines or END_MARK not in lines[-1].text:
        return None
    try:
        said = json.loads(lines[-1].text.partition(END_MARK)[2])
        if said["lines"] != lines[-1].number - 1:
            return None
        return EndMark(said["healthy"] is True, int(said["served"]), said.get("exited") is True)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def closing_line(log: bytes, *, healthy: bool, served: int, exited: bool = False) -> bytes:
    """The end mark for a log that is complete."""
    fill = b"" if not log or log.endswith(b"\n") else b"\n"
    said = {"healthy": healthy, "served": served, "lines": (log + fill).count(b"\n")}
    said |= {"exited": True} if exited else {}
    return fill + END_MARK.encode() + json.dumps(said).encode() + b"\n"


def how_it_ended(
    lines: Sequence[LogLine], healthy: bool | None, *, exited: bool = False
) -> tuple[Outcome, str | None]:
    """Outcome and cause: a death wins over a start, whichever came first."""
    dead = exited or any(patterns.DEAD.search(line.text) for line in lines)
    started = healthy is True or any(patterns.READY.search(line.text) for line in lines)
    cause = cause_of(lines)
    if dead or (cause is not None and not started):
        return Outcome.FAILED, cause or last_exception(lines) or "the engine died without naming a cause"
    if started and healthy is not False:
        return Outcome.READY, None
    return Outcome.UNFINISHED, "it answered no request for its health" if healthy is False else None


def cause_of(lines: Sequence[LogLine]) -> str | None:
    """The named cause of a failure; lines of information do not fail a boot."""
    for cause, words in patterns.CAUSES:
        for line in lines:
            bad = line.level in patterns.FATAL_LEVELS or line.level is None
            if bad and (words.search(line.text) or (line.wrapped and words.search(line.wrapped))):
                return cause
    return None


def last_exception(lines: Sequence[LogLine]) -> str | None:
    """The last line of the last traceback, for a cause that has no name of its own."""
    found = [
        match["value"]
        for line in lines
        if line.level in (*patterns.FATAL_LEVELS, None) and (match := patterns.EXCEPTION.search(line.text))
    ]
    return found[-1][:MAX_CAUSE] if found else None


def stage_of(lines: Sequence[LogLine]) -> str | None:
    """The furthest stage that any line shows."""
    reached = [stage for stage, words in patterns.STAGES if any(words.search(line.text) for line in lines)]
    return reached[-1] if reached else None


def oom_ranks(lines: Sequence[LogLine]) -> tuple[str, ...]:
    """Writers that ran out of memory, each once."""
    (words,) = (words for cause, words in patterns.CAUSES if cause == "out of memory")
    found = [line.source.key for line in lines if words.search(line.text) and line.level != "INFO"]
    return tuple(sorted(set(found)))


def captures_of(text: str) -> tuple[int, ...] | None:
    """The capture list of the engine's configuration line; None if the log shows none, or a damaged one."""
    listed = last_value(patterns.CAPTURES, text)
    if listed is None:
        return None
    # A terminal may have broken the line anywhere, inside a number too.
    sizes = [size.strip() for size in listed.replace("\n", "").split(",") if size.strip()]
    if not all(patterns.CAPTURE.fullmatch(size) for size in sizes):
        return None
    return tuple(sorted(map(int, sizes)))


def last_value(pattern: re.Pattern[str], text: str) -> str | None:
    """The last match's value."""
    found: str | None = None
    for match in pattern.finditer(text):
        found = match["value"]
    return found
