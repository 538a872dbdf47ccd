"""Less scratch than declared refuses to start; a batch over the declared capacity is a counted breach."""

from __future__ import annotations

from typing import Any

import torch
from armlib.attention import Batch, Geometry, make_layer, run_leg
from armlib.breach import allocated_rows, breach_state, declared_capacity
from armlib.builder import make_builder
from armlib.config import vllm_config
from armlib.production import owner_of, production

SMALL = Geometry(heads_q=4, heads_kv=1, head_size=32)
ROWS_IN_SEQUENCE_UNITS = 8


def one_sequence_under_graphs() -> Any:
    """Capture sizes 1, 2, 4, 8 and one sequence: 8 rows in sequence units, 16 in token units."""
    return vllm_config(
        max_num_seqs=1,
        max_num_batched_tokens=2048,
        num_heads_q=SMALL.heads_q,
        num_heads_kv=SMALL.heads_kv,
        head_size=SMALL.head_size,
        capture_sizes=[1, 2, 4, 8],
    )


def test_allocation_in_sequence_units_refuses(measure: Any, reached: Any) -> None:
    """With 8 rows for a declared capacity of 16 the builder does not construct; with 16 it does."""
    reached(owner_of("mq3d_scratch_plan"), "mq3d_scratch_plan")
    config = one_sequence_under_graphs()
    declared = production("mq3d_scratch_plan")(config, SMALL.heads_q).capacity
    make_builder(config)
    refused = False
    with allocated_rows(ROWS_IN_SEQUENCE_UNITS, instead_of=declared):
        try:
            make_builder(config)
        except AssertionError as error:
            refused = str(declared) in str(error)
    measure.control(
        "control-allocation-in-sequence-units", red=refused, metric="declared", value=declared, unit="tokens"
    )
    assert refused


def test_breach_is_counted_and_served(measure: Any, reached: Any) -> None:
    """Declared and allocated 8: a 9-token batch breaches, the next one too, and the first is kept."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    config = one_sequence_under_graphs()
    with declared_capacity(ROWS_IN_SEQUENCE_UNITS):
        builder = make_builder(config)
        nine, ten = Batch((9,), history=7), Batch((10,), history=7)
        layer = make_layer(config, SMALL, ten)
    generator = torch.Generator().manual_seed(1)
    shape = (sum(ten.seq_lens), SMALL.heads_kv, SMALL.head_size)
    keys, values = (torch.randn(shape, generator=generator).to(SMALL.dtype) for _ in range(2))
    layer.write(ten, keys, values)
    states = []
    for batch in (nine, ten):
        query = torch.randn((batch.tokens, SMALL.heads_q, SMALL.head_size), generator=generator)
        leg = run_leg(layer, builder, batch, query.to(SMALL.dtype), flag=True)
        assert leg.reasons == ["q_token_capacity_failed"]
        assert not leg.scratch_written
        assert bool(leg.output.isfinite().all())
        states.append(breach_state())
    first, second = states
    measure("breach", "count_after_first", first["count"], unit="breaches")
    measure("breach", "count_after_second", second["count"], unit="breaches")
    measure("breach", "degraded", second["degraded"], unit="bool")
    measure("breach", "first_tokens", second["first_tokens"], unit="tokens")
    measure("breach", "first_declared", second["first_declared"], unit="tokens")
    assert second == {"count": 2, "degraded": True, "first_tokens": 9, "first_declared": 8}
    assert first == second | {"count": 1}
