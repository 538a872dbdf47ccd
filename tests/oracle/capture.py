"""A call captured into a CUDA graph and replayed over other inputs in the same buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from armlib.attention import FLAG, Batch, Layer, common_metadata, environment, scratch_of


@dataclass(frozen=True)
class Replay:
    """What a replayed graph did."""

    output: torch.Tensor
    """[tokens, heads, head size]."""
    scratch_written: bool


def captured_leg(
    layer: Layer, builder: Any, batch: Batch, query: torch.Tensor, fresh: torch.Tensor
) -> Replay:
    """Capture the layer's call with `query`, replay it with `fresh` in the same buffers.

    Scratch and output are filled with NaN between capture and replay, so that nothing can be left over.
    """
    metadata = builder.build(0, common_metadata(layer, batch))
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
    graph.replay()
    torch.cuda.synchronize()
    written = any(not bool(buffer.isnan().all()) for buffer in scratch_of(metadata))
    return Replay(output.clone(), written)
