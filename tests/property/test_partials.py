"""However a batch is cut into segments, its partials lie within the plan's bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from armlib.config import vllm_config
from armlib.production import owner_of, packed_launcher, production
from plan_access import planned_capacity
from vectors import grid

HEADS_Q, HEADS_KV, HEAD_SIZE = 24, 4, 256
CROWDED = 1 << 20
"""Multiprocessors of a card that no grid fills, and bytes of each: only the scratch limits the segments."""


@dataclass(frozen=True)
class Cut:
    """How a launch cuts each row, and what it keeps of a segment."""

    segments: int
    value_bytes: int
    sums_per_buffer: int
    """fp32 numbers per row in each of the two small buffers."""

    def twice(self) -> Cut:
        """The same with twice as many segments: what a launch without a budget could do."""
        return Cut(2 * self.segments, self.value_bytes, 2 * self.sums_per_buffer)


@dataclass(frozen=True)
class Budget:
    """What one query head of the scratch holds, over its three buffers."""

    rows: int
    segments: int
    """fp32 partials per row, each with a maximum and a sum."""
    head_size: int

    def holds(self, tokens: int, cut: Cut) -> bool:
        """Whether a batch fits: its outputs into the first buffer, its sums into the other two."""
        outputs = tokens * cut.segments * self.head_size * cut.value_bytes
        return (
            outputs <= self.rows * self.segments * self.head_size * 4
            and tokens * cut.sums_per_buffer <= self.rows * self.segments
        )


def cutter(
    num_segments: int, multiprocessors: int = CROWDED, shared_bytes: int = CROWDED
) -> Callable[[int, int, int], Cut]:
    """The arm's own rule (tokens, sequences, rows of the scratch) -> cut.

    Without the packed kernel every launch takes the plan's segments, in fp32.

    Args:
        num_segments: of the plan.
        multiprocessors: of the card.
        shared_bytes: shared memory of each.
    """
    packed = packed_launcher()
    if packed is None:
        return lambda tokens, seqs, rows: Cut(num_segments, 4, num_segments)
    launch, card = (packed.__globals__[name] for name in ("packed_launch", "Card"))

    def cut(tokens: int, seqs: int, rows: int) -> Cut:
        segments = launch(
            num_tokens=tokens,
            num_seqs=seqs,
            max_seqlen_q=-(-tokens // seqs),
            num_kv_heads=HEADS_KV,
            num_queries_per_kv=HEADS_Q // HEADS_KV,
            head_size=HEAD_SIZE,
            scratch_rows=rows,
            scratch_segments=num_segments,
            card=card(multiprocessors, shared_bytes),
        ).segments
        return Cut(segments, 2, -(-segments // 2))

    return cut


def test_partials_fit(measure: Any, reached: Any) -> None:
    """Every number of tokens that a plan of the grid holds, in one sequence and in as many as possible."""
    owner = owner_of("mq3d_scratch_plan")
    reached(owner, "mq3d_scratch_plan")
    plan = production("mq3d_scratch_plan")(vllm_config(max_num_seqs=4, max_num_batched_tokens=2048), HEADS_Q)
    cut_of = cutter(plan.num_segments)
    launches = over = over_twice = most = 0
    for rows in sorted({planned_capacity(owner, configuration) for configuration in grid()}):
        budget = Budget(rows, plan.num_segments, plan.headdim_padded)
        for tokens in range(1, rows + 1):
            for seqs in {1, tokens}:
                cut = cut_of(tokens, seqs, rows)
                launches += 1
                most = max(most, cut.segments)
                over += not budget.holds(tokens, cut)
                over_twice += not budget.holds(tokens, cut.twice())
    measure("partials", "launches", launches, unit="launches")
    measure("partials", "violations", over, unit="launches")
    measure("partials", "most_segments", most, unit="segments")
    measure.control("control-twice-the-segments", red=over_twice > 0)
    assert over == 0
    assert over_twice > 0


def test_the_plan_says_how_many(measure: Any) -> None:
    """A plan that promises half-precision partials promises as many as its bytes hold, and no more."""
    plan = production("mq3d_scratch_plan")(vllm_config(max_num_seqs=1, max_num_batched_tokens=2048), HEADS_Q)
    promised = getattr(plan, "packed_partials", None)
    room = plan.total_bytes // (HEADS_Q * (plan.headdim_padded * 2 + 4))
    measure("partials", "room", room, unit="partials")
    assert promised == (room if packed_launcher() else None)


def test_the_card_bounds_the_cut() -> None:
    """A card whose multiprocessors hold one block where another's hold two is filled by half the segments."""
    cuts = [cutter(16, multiprocessors=16, shared_bytes=kib << 10)(8, 1, 64) for kib in (64, 100)]
    assert [cut.segments for cut in cuts] == ([4, 8] if packed_launcher() else [16, 16])
