"""A call captured into a CUDA graph and replayed over other inputs in the same buffers."""

from __future__ import annotations

from typing import Any

import torch
from armlib.attention import FLAG, Batch, Layer, common_metadata, environment, scratch_of


def captured_leg(
    layer: Layer, builder: Any, batch: Batch, query: torch.Tensor, fresh: torch.Tensor
) -> torch.Tensor:
    """Capture the layer's call with `query`, replay it with `fresh`: [tokens, heads, head size].

    The scratch is filled with NaN between capture and replay, so that nothing can be left over.
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
    return output.clone()
