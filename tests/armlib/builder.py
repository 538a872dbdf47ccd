"""The arm's metadata builder, constructed as the model runner constructs it."""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.attention.backends.triton_attn import TritonAttentionMetadataBuilder
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVQuantMode

BLOCK_SIZE = 16
"""Tokens of a block of the KV cache, where nothing else is asked for."""


def int4_spec(num_heads_kv: int, head_size: int, block_size: int = BLOCK_SIZE) -> FullAttentionSpec:
    """The KV cache spec of an int4 per-token-head attention layer."""
    return FullAttentionSpec(
        block_size=block_size,
        num_kv_heads=num_heads_kv,
        head_size=head_size,
        dtype=torch.uint8,
        kv_quant_mode=KVQuantMode.INT4_PER_TOKEN_HEAD,
    )


def scratch_rows(builder: Any) -> dict[int, int]:
    """Data pointer -> rows of the builder's split-KV buffers: the only fp32 tensors that it holds."""
    return {
        value.data_ptr(): value.shape[0]
        for value in vars(builder).values()
        if isinstance(value, torch.Tensor) and value.dtype == torch.float32
    }


def make_builder(
    vllm_config: Any, device: str = "cpu", layer_names: list[str] | None = None
) -> TritonAttentionMetadataBuilder:
    """A builder for the int4 layers of `vllm_config`; on device "meta" its scratch takes no memory."""
    model = vllm_config.model_config
    heads_kv = model.get_num_kv_heads(vllm_config.parallel_config)
    spec = int4_spec(heads_kv, model.get_head_size(), vllm_config.cache_config.block_size)
    return TritonAttentionMetadataBuilder(spec, layer_names or [], vllm_config, torch.device(device))
