"""A boot log as logical lines: colours and outer prefixes off, glued lines apart, wrapped lines joined.

A boot log has several writers, and passes through terminals, containers and journals before it is read. So
nothing here expects a line to begin in any way: what vLLM itself prints is looked for wherever it stands.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

ESCAPES = re.compile(
    r"(?:\x1b|\^\[|\bESC|#033|\\x1b|\\033|\\e)(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\))"
    r"|(?<![\w\]])\[[0-9]{1,3}(?:;[0-9]{1,3})*m"
)
"""Colours: as sent, as `^[`, `ESC` or `#033` where a tool wrote the escape out, or without it at all."""
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
ANY_TAG = re.compile(r"\((?P<name>[A-Za-z][\w.-]*)(?: rank=(?P<rank>\d+))?,? pid=(?P<pid>\d+)(?:, [^()]*)?\)")
STAGE = re.compile(r"\[(Stage-\d+)\]")
LEVEL = r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)"
STAMP = r"\d\d-\d\d \d\d:\d\d:\d\d"
HEAD = re.compile(
    r"(?:\([A-Za-z][\w.-]*(?: rank=\d+)?,? pid=\d+(?:, [^()]*)?\)\s*)*(?:\[Stage-\d+\]\s*)?"
    rf"\b(?P<level>{LEVEL})(?: +[\w.]+)? +{STAMP}"
)
"""What vLLM's own formatter puts before a message: process, stage, level, maybe a logger's name, time."""
RANKS = re.compile(r"(?<=_)((?:DP|PP|TP|EP|PCP|DCP)\d+(?:_(?:DP|PP|TP|EP|PCP|DCP)\d+)*)$")


@dataclass(frozen=True)
class Source:
    """Who wrote a line."""

    process: str | None = None
    """Innermost process tag without rank: `EngineCore`, `Worker`; None for a line without a tag."""
    rank: str | None = None
    """`PP0`, `TP1`, or the number behind `rank=`."""
    pid: int | None = None
    stage: str | None = None
    """`Stage-0` where several engines share a log."""

    @property
    def key(self) -> str:
        """A short name that tells writers apart."""
        who = self.rank or (f"pid {self.pid}" if self.pid is not None else "main")
        return f"{self.stage} {who}" if self.stage else who


@dataclass(frozen=True)
class LogLine:
    """One logical line."""

    number: int
    """Line of the file where it begins, from 1."""
    text: str
    source: Source
    level: str | None
    wrapped: str | None = None
    """The text with the next line, when that one looks like the rest of this one."""


def read_log(data: bytes) -> list[LogLine]:
    """The logical lines of a log in any encoding that is mostly ASCII."""
    lines: list[LogLine] = []
    for number, physical in enumerate(physical_lines(data), start=1):
        for part in physical.split("\r"):
            lines += [one(number, piece) for piece in split_glued(clean(part)) if piece.strip()]
    return [with_rest(line, after) for line, after in itertools.zip_longest(lines, lines[1:])]


def physical_lines(data: bytes) -> list[str]:
    """Text between line feeds; a last line without one counts."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    text = data.decode(encoding, errors="replace").replace("\r\n", "\n").removeprefix("\ufeff")
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def clean(text: str) -> str:
    """Without colours and control characters."""
    return CONTROL.sub("", ESCAPES.sub("", text))


def split_glued(text: str) -> list[str]:
    """Apart what two processes wrote into one line; an outer prefix becomes a piece that says nothing."""
    starts = [match.start() for match in HEAD.finditer(text)]
    edges = [0, *(start for start in starts if start), len(text)]
    return [text[begin:end] for begin, end in itertools.pairwise(edges)]


def one(number: int, text: str) -> LogLine:
    """A logical line with its writer and level."""
    head = HEAD.search(text)
    return LogLine(number, text, source_of(text[: head.end()] if head else text), head and head["level"])


def source_of(text: str) -> Source:
    """The innermost process tag of a prefix."""
    tags = list(ANY_TAG.finditer(text))
    stage = STAGE.search(text)
    named = stage[1] if stage else None
    if not tags:
        return Source(stage=named)
    tag = tags[-1]
    ranks = RANKS.search(tag["name"])
    process = tag["name"][: ranks.start() - 1] if ranks else tag["name"]
    return Source(process, tag["rank"] or (ranks[1] if ranks else None), int(tag["pid"]), named)


def with_rest(line: LogLine, after: LogLine | None) -> LogLine:
    """Attach the next line when it may be the rest of this one, cut by a terminal of fixed width."""
    if after is None or after.number != line.number + 1 or begins_anew(after.text):
        return line
    return LogLine(line.number, line.text, line.source, line.level, line.text + after.text)


def begins_anew(text: str) -> bool:
    """Whether a line has a writer of its own, and so is nobody's rest."""
    return bool(HEAD.search(text) or ANY_TAG.search(text))
