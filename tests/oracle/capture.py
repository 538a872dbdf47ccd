"""A call captured into a CUDA graph and replayed over other inputs in the same buffers.

What may change between replays is what the model runner writes into buffers that a graph reads: queries,
lengths and tables of the sequences. The number of tokens and of sequences is the graph's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from armlib.attention import FLAG, Batch, Layer, common_metadata, environment, scratch_of
from vllm.v1.attention.backend import CommonAttentionMetadata


@dataclass(frozen=True)
class Replay:
    """What a replayed graph did."""

    output: torch.Tensor
    """[tokens, heads, head size]."""
    scratch_written: bool


def last_first(layer: Layer, batch: Batch) -> Layer:
    """The layer with as many sequences as `batch` has, the last cached ones: another block table."""
    return replace(layer, block_table=layer.block_table.flip(0)[: len(batch.q_lens)])


def rewrite(buffers: CommonAttentionMetadata, layer: Layer, batch: Batch) -> None:
    """Put another batch of as many tokens and sequences into the buffers that a graph reads."""
    new = common_metadata(layer, batch)
    assert (new.num_actual_tokens, new.num_reqs) == (buffers.num_actual_tokens, buffers.num_reqs)
    assert new.max_query_len <= buffers.max_query_len
    buffers.query_start_loc.copy_(new.query_start_loc)
    buffers.seq_lens.copy_(new.seq_lens)
    buffers.block_table_tensor.copy_(new.block_table_tensor)


def captured_leg(
    layer: Layer,
    builder: Any,
    batch: Batch,
    query: torch.Tensor,
    fresh: torch.Tensor,
    replayed: tuple[Layer, Batch] | None = None,
) -> Replay:
    """Capture the layer's call with `query`, replay it with `fresh` in the same buffers.

    Scratch and output are filled with NaN between capture and replay, so that nothing can be left over.

    Args:
        layer, batch, query: what is captured.
        builder: the arm's metadata builder.
        fresh: the query of the replay.
        replayed: the layer and batch of the replay, over the same cache; the captured ones, unless told.
    """
    buffers = common_metadata(layer, batch)
    metadata = builder.build(0, buffers)
    static, output = query.clone(), torch.empty_like(query)

    def call() -> None:
        layer.impl.forward(layer.module, static, static, static, layer.kv_cache, metadata, output)

    with environment({FLAG: "1"}):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            call()  # compiles what the capture may not
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
    for buffer in (*scratch_of(metadata), output):
        buffer.fill_(float("nan"))
    static.copy_(fresh)
    if replayed is not None:
        rewrite(buffers, *replayed)
    graph.replay()
    torch.cuda.synchronize()
    written = any(not bool(buffer.isnan().all()) for buffer in scratch_of(metadata))
    return Replay(output.clone(), written)
