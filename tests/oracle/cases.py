"""The cases of the published numerical check and what each leg must do."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
from armlib.attention import Batch, Geometry
from armlib.config import vllm_config
from vllm.v1.attention.ops import int4_per_token_head

LANE = os.environ.get("FORKPROOF_LANE", "cpu")
DEVICE = "cpu" if LANE == "cpu" else "cuda"
HISTORY = 48
MAX_NUM_SEQS = 2
MAX_NUM_BATCHED_TOKENS = 8192
REAL = Geometry(heads_q=24, heads_kv=4, head_size=256, dtype=torch.float16)
NARROW = Geometry(heads_q=6, heads_kv=1, head_size=256, dtype=torch.float16)
"""A quarter of the real heads, for batches that the interpreter could not finish in time."""

ROUNDS_WEIGHTS = hasattr(int4_per_token_head, "round_to_tf32")
"""Whether the arm rounds softmax weights to the 10 mantissa bits of tf32 and half floats on any device."""
CPU_LAUNCHER_LIMIT = 2**-7 + (2**-6 if ROUNDS_WEIGHTS else 1e-3)
"""On the interpreter products are fp32: what is left is half a unit of an fp16 output between 16 and 32.

An arm that rounds its weights adds half a unit of them, 2^-12, of values that reach 64.
"""
CPU_END_TO_END_LIMIT = 2e-3
"""That error through the inverse transform, which averages it over dimensions, and the output's rounding."""

ELIGIBLE = "NONE(3d eligible)"
FLAG_OFF = "mq_but_flag_off"
POLICY = "max_query_len_policy>16"
CAPACITY = "q_token_capacity_failed"


def packed_refused(name: str) -> str:
    """The reason of a batch on 3D that the packed kernel refuses by this name, if the arm has one."""
    return f"{ELIGIBLE},packed_{name}" if hasattr(int4_per_token_head, "packed_blockers") else ELIGIBLE


@dataclass(frozen=True)
class Case:
    """One batch and, per leg (flag 0, flag 1), the reason its debug line must give."""

    name: str
    q_lens: tuple[int, ...]
    reasons: tuple[str, str]

    @property
    def paths(self) -> tuple[str, str]:
        """The kernel of each leg, which follows from its reason."""
        return tuple("3D" if reason == ELIGIBLE else "2D" for reason in self.reasons)  # type: ignore[return-value]

    @property
    def asks_for_capacity(self) -> bool:
        """Whether flag and policy let more than one token per sequence through, so that capacity decides."""
        return max(self.q_lens) > 1 and self.reasons[1] == ELIGIBLE

    @property
    def geometry(self) -> Geometry:
        """The real heads, but for the longest batch on the interpreter."""
        return NARROW if DEVICE == "cpu" and sum(self.q_lens) > 100 else REAL

    @property
    def batch(self) -> Batch:
        """The sequences on top of the common history."""
        return Batch(self.q_lens, HISTORY)


CASES = [
    Case("wild-[848]", (848,), (f"{FLAG_OFF},{POLICY}", POLICY)),
    Case("boundary-[16]", (16,), (FLAG_OFF, ELIGIBLE)),
    Case("units-[16,1]", (16, 1), (FLAG_OFF, ELIGIBLE)),
    Case("even-[8,8]", (8, 8), (FLAG_OFF, ELIGIBLE)),
    Case("ragged-[1,8,3]", (1, 8, 3), (FLAG_OFF, ELIGIBLE)),
    Case("hist-[9]", (9,), (FLAG_OFF, ELIGIBLE)),
    Case("zerorow-[4,0,3]", (4, 0, 3), (FLAG_OFF, ELIGIBLE)),
    Case("policy-[17]", (17,), (f"{FLAG_OFF},{POLICY}", POLICY)),
    Case("decode-[1]", (1,), (ELIGIBLE, ELIGIBLE)),
]
"""Longest first, so that workers finish together."""

SHARED_BATCH = Batch((17, 17, 17, 17), HISTORY)
"""Holds every case but the longest: causal attention sees no further than a case's own lengths."""


def short_cases() -> list[Case]:
    """The cases that the shared cache holds."""
    return [case for case in CASES if max(case.q_lens) <= max(SHARED_BATCH.q_lens)]


def config_for(geometry: Geometry, max_num_seqs: int = MAX_NUM_SEQS) -> object:
    """The declared configuration of the check: eager."""
    return vllm_config(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=MAX_NUM_BATCHED_TOKENS,
        num_heads_q=geometry.heads_q,
        num_heads_kv=geometry.heads_kv,
        head_size=geometry.head_size,
        block_size=geometry.block_size,
        device=DEVICE,
    )
