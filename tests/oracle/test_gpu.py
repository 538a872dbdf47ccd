"""What only a card can show: captured graphs, long contexts, the drafter's layers, bfloat16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from armlib.attention import Batch, Geometry, run_leg
from armlib.builder import make_builder
from armlib.other_arm import run_in_arm
from armlib.production import owner_of
from bench import Bench, errors_of, make_bench
from capture import captured_leg, last_first
from cases import DEVICE, HISTORY, REAL, config_for
from long_context import CONTEXTS, QUERY_TOKENS, relative_errors
from reference import end_to_end
from verdict import measure_leg

pytestmark = pytest.mark.gpu_only

DRAFTER = Geometry(heads_q=32, heads_kv=8, head_size=128)
BFLOAT16 = Geometry(dtype=torch.bfloat16)
GRAPH_BATCHES = {"graph-[8]": (8,), "graph-[16,1]": (16, 1), "graph-[8,8]": (8, 8), "graph-[1]": (1,)}
CAPTURED_HISTORY, REPLAYED_HISTORY = 8, 2987
"""A graph is captured over dummy sequences and replayed over whatever comes; no multiple of a block here."""
OTHER_BATCHES = {
    "graph-longer-[1]": (Batch((1,), CAPTURED_HISTORY), Batch((1,), REPLAYED_HISTORY)),
    "graph-longer-[8]": (Batch((8,), CAPTURED_HISTORY), Batch((8,), REPLAYED_HISTORY)),
    "graph-longer-[3,8]": (
        Batch((8, 8), CAPTURED_HISTORY),
        Batch((3, 8), REPLAYED_HISTORY, padding=5),
    ),
}
"""Name -> the batch that is captured and the one that is replayed, with as many tokens and sequences."""
OTHER_LAYERS = {
    "drafter-[8]": (DRAFTER, (8,)),
    "drafter-[16,1]": (DRAFTER, (16, 1)),
    "bf16-[8]": (BFLOAT16, (8,)),
    "bf16-[16,1]": (BFLOAT16, (16, 1)),
}


@pytest.mark.parametrize("name", GRAPH_BATCHES)
def test_captured_graph(name: str, real: Bench, measure: Any, reached: Any) -> None:
    """A captured call, replayed with fresh queries in the same buffers, equals eager and the reference."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    batch = Batch(GRAPH_BATCHES[name], HISTORY)
    builder = make_builder(config_for(REAL), DEVICE)
    layer = real.narrowed(batch)
    capture_query, fresh = (real.query(batch, seed) for seed in (31, 32))
    replayed = captured_leg(layer, builder, batch, capture_query, fresh)
    eager = run_leg(layer, builder, batch, fresh, flag=True)
    measure(name, "path", "3D" if replayed.scratch_written else "2D", unit="name")
    measure(name, "diff_eager", float((replayed.output - eager.output).abs().max()), unit="abs")
    exact = end_to_end(fresh, layer, batch)
    measure(name, "end_to_end_ref", float((replayed.output.double() - exact).abs().max()), unit="abs")
    assert bool(replayed.output.isfinite().all())


@pytest.mark.parametrize("name", OTHER_BATCHES)
def test_captured_graph_of_another_batch(name: str, measure: Any, reached: Any) -> None:
    """A graph replayed over longer sequences and another block table than captured equals eager on those."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    captured, batch = OTHER_BATCHES[name]
    bench = make_bench(REAL, Batch((max(batch.q_lens),) * 3, REPLAYED_HISTORY))
    builder = make_builder(config_for(REAL), DEVICE)
    layer = last_first(bench.layer, batch)
    fresh = bench.query(batch, seed=32)
    replayed = captured_leg(
        bench.narrowed(captured), builder, captured, bench.query(captured, seed=31), fresh, (layer, batch)
    )
    eager = run_leg(layer, builder, batch, fresh, flag=True)
    rows = sum(batch.q_lens)
    error = (replayed.output[:rows].double() - end_to_end(fresh, layer, batch)).abs().max()
    measure(name, "path", "3D" if replayed.scratch_written else "2D", unit="name")
    measure(name, "diff_eager", float((replayed.output - eager.output).abs().max()), unit="abs")
    measure(name, "end_to_end_ref", float(error), unit="abs")
    assert bool(replayed.output.isfinite().all())


@pytest.mark.parametrize("name", OTHER_LAYERS)
def test_other_layers(name: str, measure: Any, reached: Any) -> None:
    """The drafter's attention shape and bfloat16 activations also take the kernel they should."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    geometry, q_lens = OTHER_LAYERS[name]
    batch = Batch(q_lens, HISTORY)
    bench = make_bench(geometry, batch)
    builder = make_builder(config_for(geometry), DEVICE)
    query = bench.query(batch, seed=7)
    for flag in (False, True):
        leg = run_leg(bench.layer, builder, batch, query, flag)
        assert measure_leg(measure, name, int(flag), leg)
        error = errors_of(leg, bench, batch, query)
        measure(name, f"launcher_ref_flag{int(flag)}", error.launcher, unit="abs")


def test_long_context(measure: Any) -> None:
    """The error against float64 grows with context in stock too; an arm must not be worse than stock."""
    ours = relative_errors()
    stock = run_in_arm("stock", Path(__file__).with_name("long_context.py"))
    for context in CONTEXTS:
        for tokens in QUERY_TOKENS:
            case = f"long-{context}-[{tokens}]"
            for flag in (0, 1):
                key = f"{context}/{tokens}/{flag}"
                measure(case, f"relative_error_flag{flag}", ours[key], unit="1")
                measure(case, f"ratio_to_stock_flag{flag}", ours[key] / stock[key], unit="1")
            measure(case, "relative_error_stock", stock[f"{context}/{tokens}/0"], unit="1")
