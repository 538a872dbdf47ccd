"""The two configurations in which sizing in sequences was found to be short."""

from __future__ import annotations

from typing import Any

from armlib.builder import make_builder
from armlib.config import vllm_config
from armlib.production import owner_of, production


def threshold(config: Any) -> int:
    """The sequence threshold that the arm's builder hands to the launcher: the rows of sequence sizing."""
    return make_builder(config, device="meta").seq_threshold_3D


def test_eight_rows_under_graphs(measure: Any, reached: Any) -> None:
    """With graphs and one sequence the threshold 32 snaps to 8; the plan still holds 16 query tokens."""
    reached(owner_of("mq3d_scratch_plan"), "mq3d_scratch_plan")
    graphs = vllm_config(max_num_seqs=1, max_num_batched_tokens=2048, capture_sizes=[1, 2, 4, 8])
    eager = vllm_config(max_num_seqs=1, max_num_batched_tokens=2048)
    plan_of = production("mq3d_scratch_plan")
    snapped, plain = plan_of(graphs, 24), plan_of(eager, 24)
    measure("eight-rows-under-graphs", "rows_seq_units", threshold(graphs), unit="rows")
    measure("eight-rows-under-graphs", "rows_seq_units_eager", threshold(eager), unit="rows")
    measure("eight-rows-under-graphs", "capacity", snapped.capacity, unit="tokens")
    measure("eight-rows-under-graphs", "row_bytes", snapped.row_bytes, unit="bytes")
    assert threshold(graphs) < 9 <= snapped.capacity == plain.capacity == 16


def test_short_without_graphs(measure: Any, reached: Any) -> None:
    """At 33 sequences sizing in sequences is short without graphs too: 32 rows for up to 512 tokens."""
    reached(owner_of("mq3d_scratch_plan"), "mq3d_scratch_plan")
    config = vllm_config(max_num_seqs=33, max_num_batched_tokens=8192)
    plan = production("mq3d_scratch_plan")(config, 24)
    measure("short-without-graphs", "rows_seq_units", threshold(config), unit="rows")
    measure("short-without-graphs", "capacity", plan.capacity, unit="tokens")
    assert threshold(config) < plan.capacity == 512
