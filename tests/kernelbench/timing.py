"""Times of one launcher call on a card: graph replays over a cold L2, and the card's own copy speed."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from armlib.attention import FLAG, Batch, Layer, common_metadata, environment, scratch_of
from vllm.v1.attention.ops import int4_per_token_head as kernels

FLUSH_BYTES = 512 * 1024 * 1024
"""Written between replays; several times any card's L2."""
COPY_BYTES = 4 * 1024**3


@dataclass(frozen=True)
class LauncherCall:
    """One call of the launcher, ready to be made again."""

    make: Callable[[], None]
    path: str
    """3D if its first time wrote the split-KV scratch, else 2D."""


def launcher_call(layer: Layer, builder: Any, batch: Batch, query: torch.Tensor, flag: int) -> LauncherCall:
    """The launcher's call as the layer makes it, without the Hadamard transforms around it."""
    metadata = builder.build(0, common_metadata(layer, batch))
    scratch = scratch_of(metadata)
    for buffer in scratch:
        buffer.fill_(float("nan"))
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
    written = any(not bool(buffer.isnan().all()) for buffer in scratch)

    def make() -> None:
        with environment({FLAG: str(flag)}):
            original(*args, **kwargs)

    return LauncherCall(make, "3D" if written else "2D")


@dataclass(frozen=True)
class Captured:
    """A graph of launcher calls; the call is kept because the graph replays over its tensors."""

    graph: torch.cuda.CUDAGraph
    call: LauncherCall


def capture(call: LauncherCall, times: int = 1) -> Captured:
    """Capture `times` calls in one graph; the call was made before, so that nothing is compiled in here."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            call.make()
    return Captured(graph, call)


def median_us(captured: Captured, flush: torch.Tensor, repeats: int) -> float:
    """Median microseconds of a graph's replays, each over a cold L2.

    Args:
        captured: the graph.
        flush: `FLUSH_BYTES` of device memory, written before each replay.
        repeats: how many replays.
    """
    samples = []
    for _ in range(repeats):
        flush.fill_(1)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        captured.graph.replay()
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
    del source, target
    torch.cuda.empty_cache()  # other arms wait on the same card
    return 2 * COPY_BYTES / statistics.median(samples)
