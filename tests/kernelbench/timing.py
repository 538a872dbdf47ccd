"""Times of one launcher call on a card: graph replays over a cold L2, and the card's own copy speed."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
from armlib.attention import FLAG, Batch, Layer, common_metadata, environment
from vllm.v1.attention.ops import int4_per_token_head as kernels

REPEATS = 30
FLUSH_BYTES = 512 * 1024 * 1024
"""Written between replays; several times any card's L2."""
COPY_BYTES = 4 * 1024**3


def launcher_call(
    layer: Layer, builder: Any, batch: Batch, query: torch.Tensor, flag: int
) -> Callable[[], None]:
    """The launcher's call as the layer makes it, without the Hadamard transforms around it."""
    metadata = builder.build(0, common_metadata(layer, batch))
    output = torch.empty_like(query)
    kept: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    original = kernels._launch_packed_attn

    def keep(*args: Any, **kwargs: Any) -> None:
        kept.append((args, kwargs))
        original(*args, **kwargs)

    kernels._launch_packed_attn = keep
    try:
        with environment({FLAG: str(flag)}):
            layer.impl.forward(layer.module, query, query, query, layer.kv_cache, metadata, output)
    finally:
        kernels._launch_packed_attn = original
    args, kwargs = kept[0]

    def call() -> None:
        with environment({FLAG: str(flag)}):
            original(*args, **kwargs)

    return call


def median_us(call: Callable[[], None], times: int = 1) -> float:
    """Median microseconds of `times` calls in one captured graph, replayed over a cold L2."""
    graph = torch.cuda.CUDAGraph()
    call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(times):
            call()
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    samples = []
    for _ in range(REPEATS):
        flush.fill_(1)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(end) * 1e3)
    return statistics.median(samples)


def copy_bytes_per_s() -> float:
    """Bytes read plus bytes written per second by a large device-to-device copy."""
    source = torch.ones(COPY_BYTES // 4, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    target.copy_(source)
    samples = []
    for _ in range(10):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        target.copy_(source)
        end.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(end) / 1e3)
    return 2 * COPY_BYTES / statistics.median(samples)


def cache_bytes(batch: Batch, heads_kv: int, head_size: int) -> int:
    """Bytes of int4 keys, values and scales that one call must read."""
    return sum(batch.seq_lens) * heads_kv * 2 * (head_size // 2 + 4)
