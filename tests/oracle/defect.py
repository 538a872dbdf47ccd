"""The defect as it was found: which batch sizes leave the split-KV kernel in this arm, and why.

Run as a script it prints its rows for the arm on its import path, as one JSON object. The decision depends on
KV heads, capture sizes and rows, not on head size, so a small layer is enough.
"""

from __future__ import annotations

import functools
import json
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from armlib.attention import Batch, Geometry, Layer, make_layer, run_leg
from armlib.breach import allocated_rows
from armlib.builder import make_builder
from armlib.config import vllm_config
from cases import DEVICE
from inputs import draw

GEOMETRY = Geometry(heads_q=4, heads_kv=4, head_size=64)
BATCH_SIZES = (1, 2, 4, 8, 9, 24)
CAPTURE_SIZES = [1, 2, 4, 8]
ROWS_EAGER, ROWS_GRAPHS, ROWS_TOKENS = 32, 8, 16
"""Rows in sequence units without and with graphs at this geometry, and in token units."""


def config(graphs: bool) -> Any:
    """One sequence, with or without graphs."""
    return vllm_config(
        max_num_seqs=1,
        max_num_batched_tokens=2048,
        num_heads_q=GEOMETRY.heads_q,
        num_heads_kv=GEOMETRY.heads_kv,
        head_size=GEOMETRY.head_size,
        capture_sizes=CAPTURE_SIZES if graphs else None,
        device=DEVICE,
    )


@functools.cache
def written_layer() -> Layer:
    """A layer that holds the longest batch, and so every shorter one."""
    batch = Batch((max(BATCH_SIZES),), history=7)
    layer = make_layer(config(graphs=False), GEOMETRY, batch)
    keys = draw((sum(batch.seq_lens), GEOMETRY.heads_kv, GEOMETRY.head_size), 1, GEOMETRY.dtype)
    layer.write(batch, keys, keys)
    return layer


def reason(size: int, graphs: bool, rows: AbstractContextManager[None] | None = None) -> str:
    """`path: reason` of one batch of `size` tokens with the flag on."""
    batch, layer = Batch((size,), history=7), written_layer()
    with rows or nullcontext():
        builder = make_builder(config(graphs), DEVICE)
    query = draw((size, GEOMETRY.heads_q, GEOMETRY.head_size), 2, GEOMETRY.dtype)
    leg = run_leg(layer, builder, batch, query, flag=True)
    return f"{'3D' if leg.scratch_written else '2D'}: {leg.reasons[0]}"


def table() -> dict[str, dict[str, str]]:
    """Graph mode -> batch size -> path and reason."""
    return {
        mode: {f"batch_{size}": reason(size, graphs) for size in BATCH_SIZES}
        for mode, graphs in (("graphs", True), ("eager", False))
    }


def flips() -> dict[str, str]:
    """The mode held fixed and only the rows moved: nine tokens change kernels in both directions."""
    return {
        "eager_8_rows": reason(9, False, allocated_rows(ROWS_GRAPHS, instead_of=ROWS_EAGER)),
        "graphs_16_rows": reason(9, True, allocated_rows(ROWS_TOKENS, instead_of=ROWS_GRAPHS)),
    }


if __name__ == "__main__":
    print(json.dumps({"table": table(), "flips": flips()}))
