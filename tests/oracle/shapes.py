"""Batches and head shapes beyond the published cases, and which kernel each must take."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from armlib.attention import Batch, Geometry
from cases import DEVICE, ELIGIBLE, FLAG_OFF, HISTORY, NARROW, POLICY, REAL

TOO_MANY = "num_seqs_policy>{}"
"""More sequences than 128 / KV heads: the 2D grid fills the card by then."""
HERE = NARROW if DEVICE == "cpu" else REAL
"""A quarter of the real heads on the interpreter."""

OFF_THEN_3D = (FLAG_OFF, ELIGIBLE)
UNALIGNED = 41
"""A history that is no multiple of a block: the first rows of a live segment see none of its keys."""
ODD_SEGMENTS = 1299
"""Keys for the last of an odd number of segments: 12 sequences have 5 on the interpreter and 11 on 132
multiprocessors, 6 sequences have 13 on 82 and 21 on 128."""
ALWAYS_3D = (ELIGIBLE, ELIGIBLE)
PREFILL = (f"{FLAG_OFF},{POLICY}", POLICY)


@dataclass(frozen=True)
class Shape:
    """One batch of one head shape and, per leg (flag 0, flag 1), the reason its debug line must give."""

    name: str
    geometry: Geometry
    q_lens: tuple[int, ...]
    reasons: tuple[str, str] = OFF_THEN_3D
    history: int = HISTORY
    """Cached tokens before the query's own."""

    @property
    def batch(self) -> Batch:
        """The sequences on top of the history."""
        return Batch(self.q_lens, self.history)

    @property
    def paths(self) -> tuple[str, ...]:
        """The kernel of each leg, which follows from its reason."""
        return tuple("3D" if reason == ELIGIBLE else "2D" for reason in self.reasons)


def heads(query: int, kv: int, size: int) -> Geometry:
    """A head shape with fp16 activations."""
    return Geometry(heads_q=query, heads_kv=kv, head_size=size, dtype=torch.float16)


def named(query: int, kv: int, size: int, q_lens: tuple[int, ...]) -> Shape:
    """A shape that is called by its heads: query heads, KV heads, head size, query lengths."""
    lengths = ",".join(map(str, q_lens))
    return Shape(f"heads-{query}/{kv}x{size}-[{lengths}]", heads(query, kv, size), q_lens)


TOKENS = [Shape(f"tokens-[{tokens}]", HERE, (tokens,)) for tokens in (2, 3, 4, 6, 12)]
HEADS = [
    named(24, 4, 64, (8,)),
    named(24, 4, 128, (16,)),
    named(8, 8, 64, (8,)),
    named(8, 8, 256, (16,)),
    named(32, 8, 64, (16,)),
    named(32, 8, 256, (8,)),
    named(16, 2, 128, (2, 3)),
    named(16, 2, 256, (16,)),
]
BATCHES = [
    Shape("unaligned-[16]", HERE, (16,), history=UNALIGNED),
    Shape("seqs-6x1", HERE, (1,) * 6, ALWAYS_3D, history=ODD_SEGMENTS),
    Shape("seqs-12x1", HERE, (1,) * 12, ALWAYS_3D, history=ODD_SEGMENTS),
    Shape("seqs-32x1", HERE, (1,) * 32, ALWAYS_3D),
    Shape("seqs-16x4", HERE, (4,) * 16),
    Shape("prefill-[40,1,24]", HERE, (40, 1, 24), PREFILL),
]
LARGE = [
    Shape("seqs-32x8", REAL, (8,) * 32),
    Shape("seqs-32x16", REAL, (16,) * 32),
    # 8 KV heads: more than 16 sequences are left to 2D, single tokens as well.
    Shape("seqs-32x1-kv8", heads(32, 8, 128), (1,) * 32, (TOO_MANY.format(16),) * 2),
    Shape(
        "seqs-32x8-kv8",
        heads(32, 8, 128),
        (8,) * 32,
        (f"{TOO_MANY.format(16)},{FLAG_OFF}", TOO_MANY.format(16)),
    ),
    Shape("prefill-[512]", REAL, (512,), PREFILL),
    Shape("prefill-[2000,1,8]", REAL, (2000, 1, 8), PREFILL),
]
"""Too many tokens for the interpreter."""

SHAPES = [*BATCHES, *TOKENS, *HEADS, *(LARGE if DEVICE != "cpu" else [])]
