"""What kernelbench times: one table of named batches and, per batch, the metrics that are planned for it.

Plain data without torch or an arm, so that the gate's own tests hold it against the plan.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

REPEATS = 30
SHORT_CONTEXT = 1024
"""Tokens of context below which the goals call a batch short."""
SHORT_REPEATS = 120
"""Replays of a short call that is judged to 2%: the median of a few microseconds has to stand still."""


class Kind(enum.Enum):
    """What a case is about, which decides what is measured of it."""

    CALL = "call"
    """A verify batch that is also timed with the multi-query flag off."""
    VERIFY = "verify"
    """A batch for the split-KV path: a few query tokens on a context."""
    PREFILL = "prefill"
    """A batch too long for it: bound by its products, so the bytes of the cache are no floor."""


@dataclass(frozen=True)
class Shape:
    """Query heads, KV heads, head size in elements."""

    heads_q: int = 24
    heads_kv: int = 4
    head_size: int = 256


@dataclass(frozen=True)
class Case:
    """Sequences of equal length: `tokens` query tokens each, on top of `context` cached tokens."""

    name: str
    kind: Kind
    tokens: int
    context: int
    seqs: int = 1
    shape: Shape = Shape()

    @property
    def judged(self) -> bool:
        """Whether policy holds it to 2% of the arm before: prefills, and contexts that are short."""
        return self.kind is Kind.PREFILL or self.context < SHORT_CONTEXT

    @property
    def repeats(self) -> int:
        """Replays of one pass."""
        return SHORT_REPEATS if self.judged and self.has_floor else REPEATS

    @property
    def has_floor(self) -> bool:
        """Whether the bytes of the cache bound its time from below in a way that says something."""
        return self.kind is not Kind.PREFILL

    @property
    def length(self) -> int:
        """Tokens in the cache per sequence, the query's own included."""
        return self.context + self.tokens

    @property
    def bytes_read(self) -> int:
        """Bytes of int4 keys, values and fp32 scales that one call must read."""
        return self.seqs * self.length * self.shape.heads_kv * 2 * (self.shape.head_size // 2 + 4)

    @property
    def time_metric(self) -> str:
        """The name of the arm's time, after the kernel that the batch should take; `path` is what it took."""
        return "us_3d" if self.has_floor else "us_2d"


def _verify(name: str, tokens: int, context: int, seqs: int = 1, shape: Shape = Shape()) -> Case:
    return Case(name, Kind.VERIFY, tokens, context, seqs, shape)


CASES = (
    *(Case(f"call-{context}", Kind.CALL, 8, context) for context in (4096, 24576, 49152, 90112)),
    *(_verify(f"tokens-1-{context}", 1, context) for context in (4096, 24576, 90112)),
    _verify("tokens-2-24576", 2, 24576),
    *(_verify(f"tokens-4-{context}", 4, context) for context in (24576, 90112)),
    *(_verify(f"tokens-16-{context}", 16, context) for context in (24576, 90112)),
    _verify("seqs-4-24576", 8, 24576, seqs=4),
    _verify("seqs-8-24576", 8, 24576, seqs=8),
    _verify("seqs-32-4096", 8, 4096, seqs=32),
    _verify("decode-32-4096", 1, 4096, seqs=32),
    *(_verify(f"head-{size}-24576", 8, 24576, shape=Shape(head_size=size)) for size in (64, 128)),
    *(
        _verify(f"ratio-{heads_q}-{heads_kv}-24576", 8, 24576, shape=Shape(heads_q, heads_kv))
        for heads_q, heads_kv in ((32, 8), (16, 2), (8, 8))
    ),
    *(
        _verify(f"short-{tokens}-{context}", tokens, context)
        for tokens in (1, 8)
        for context in (64, 512, 1000)
    ),
    _verify("short-seqs-32-512", 8, 512, seqs=32),
    _verify("short-decode-32-512", 1, 512, seqs=32),
    *(_verify(f"short-head-{size}-512", 8, 512, shape=Shape(head_size=size)) for size in (64, 128)),
    _verify("short-ratio-8-8-512", 8, 512, shape=Shape(8, 8)),
    Case("prefill-512-0", Kind.PREFILL, 512, 0),
    Case("prefill-2048-4096", Kind.PREFILL, 2048, 4096),
)

COMPARED = (
    "path",
    "spread",
    "us_mq3d",
    "speedup_mq3d",
    "path_mq3d",
    "us_stock",
    "speedup_stock",
    "path_stock",
    "ratio_to_before",
)
"""Metrics of every case, beside the arm's own time."""
BYTES = ("bytes_read", "floor_us", "ratio_to_floor_3d")
METRICS = {
    Kind.CALL: ("us_2d", "us_3d", "speedup_3d", *BYTES, *COMPARED),
    Kind.VERIFY: ("us_3d", *BYTES, *COMPARED),
    Kind.PREFILL: ("us_2d", *COMPARED),
}


@dataclass(frozen=True)
class Doubled:
    """A control: a case's call done twice in one graph, which a comparison must notice."""

    name: str
    case: str
    metric: str
    """The number by which it is noticed."""
    unit: str


DONE_TWICE = Doubled("control-done-twice", "call-90112", "us_3d", "us")
COMPARED_TWICE = Doubled("control-compared-twice", "short-8-512", "ratio_to_before", "1")
CONTROLS = (DONE_TWICE, COMPARED_TWICE)


@dataclass(frozen=True)
class CacheKey:
    """Batches with the same heads and as many sequences lie in one cache."""

    shape: Shape
    seqs: int


def cache_lengths(cases: Iterable[Case]) -> dict[CacheKey, int]:
    """Tokens per sequence that each cache must hold: a shorter batch reads the beginning of a longer one."""
    lengths: dict[CacheKey, int] = {}
    for case in cases:
        key = CacheKey(case.shape, case.seqs)
        lengths[key] = max(lengths.get(key, 0), case.length)
    return lengths
