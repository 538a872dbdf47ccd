"""Time of one attention call on both kernels, against the time that its bytes alone would take."""

from __future__ import annotations

from typing import Any

import torch
from armlib.attention import Batch, Geometry, make_layer
from armlib.builder import make_builder
from armlib.config import vllm_config
from armlib.production import owner_of
from timing import cache_bytes, copy_bytes_per_s, launcher_call, median_us

GEOMETRY = Geometry()
TOKENS = 8
CONTEXTS = (24576, 49152, 90112)
SLOWDOWN = 0.05
"""What the control must notice: the margin of the policy's times."""


def test_calls(measure: Any, reached: Any) -> None:
    """Both kernels at three depths; and the same call done twice is seen to be slower."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    assert torch.cuda.is_available(), "kernelbench needs a CUDA GPU; on the CPU lane it is not planned"
    copy = copy_bytes_per_s()
    measure("copy", "bytes_per_s", copy, unit="bytes/s")
    config = vllm_config(max_num_seqs=2, max_num_batched_tokens=8192, device="cuda")
    for context in CONTEXTS:
        batch = Batch((TOKENS,), context)
        layer = make_layer(config, GEOMETRY, batch)
        key = torch.randn(sum(batch.seq_lens), GEOMETRY.heads_kv, GEOMETRY.head_size, device="cuda").half()
        layer.write(batch, key, torch.randn_like(key))
        builder = make_builder(config, "cuda")
        query = torch.randn(TOKENS, GEOMETRY.heads_q, GEOMETRY.head_size, device="cuda").half()
        calls = [launcher_call(layer, builder, batch, query, flag) for flag in (0, 1)]
        serial, split = (median_us(call) for call in calls)
        read = cache_bytes(batch, GEOMETRY.heads_kv, GEOMETRY.head_size)
        floor = read / copy * 1e6
        case = f"call-{context}"
        measure(case, "us_2d", serial, unit="us")
        measure(case, "us_3d", split, unit="us")
        measure(case, "speedup_3d", serial / split, unit="1")
        measure(case, "bytes_read", read, unit="bytes")
        measure(case, "floor_us", floor, unit="us")
        measure(case, "ratio_to_floor_3d", split / floor, unit="1")
    twice = median_us(calls[1], times=2)
    measure.control(
        "control-done-twice", red=twice > split * (1 + SLOWDOWN), metric="us_3d", value=twice, unit="us"
    )
    assert twice > split * (1 + SLOWDOWN)
