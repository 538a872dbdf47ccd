"""A vLLM configuration for one attention geometry, without a model on disk.

vLLM's own config classes validate by importing the executor and the model, which needs the whole
engine's dependencies. Here their instances are made field by field from their own defaults: methods and
properties stay production code, only that validation is left out.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, TypeVar

import torch
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from vllm.config import (
    CacheConfig,
    CompilationConfig,
    CUDAGraphMode,
    DeviceConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    VllmConfig,
)
from vllm.config.model_arch import ModelArchitectureConfig

T = TypeVar("T")


@functools.cache
def own_defaults(cls: type) -> dict[str, Any]:
    """Plain defaults of a config dataclass; factories make nested configs, which the caller passes."""
    defaults = {}
    for field in dataclasses.fields(cls):
        default: Any = field.default
        if isinstance(default, FieldInfo):
            default = default.default
        if default not in (dataclasses.MISSING, PydanticUndefined):
            defaults[field.name] = default
    return defaults


def bare(cls: type[T], **values: Any) -> T:
    """An instance of a config dataclass with its own defaults and `values`, not validated."""
    instance = object.__new__(cls)
    vars(instance).update(own_defaults(cls), **values)
    return instance


def model_config(num_heads_q: int, num_heads_kv: int, head_size: int) -> ModelConfig:
    """A model of one attention geometry (heads per GPU, head size in elements)."""
    arch = bare(
        ModelArchitectureConfig,
        total_num_attention_heads=num_heads_q,
        total_num_kv_heads=num_heads_kv,
        head_size=head_size,
        rswa_window=None,
        is_deepseek_mla=False,
    )
    return bare(ModelConfig, model_arch_config=arch, max_model_len=262144, dtype=torch.float16)


def vllm_config(
    *,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    num_heads_q: int = 24,
    num_heads_kv: int = 4,
    head_size: int = 256,
    block_size: int = 16,
    capture_sizes: list[int] | None = None,
    device: str = "cpu",
    ubatching: bool = False,
    speculative_config: Any = None,
) -> VllmConfig:
    """The configuration an attention backend sees.

    Args:
        max_num_seqs: sequences a batch may hold.
        max_num_batched_tokens: query tokens a batch may hold.
        num_heads_q, num_heads_kv, head_size: the target model's geometry.
        block_size: tokens of a block of the KV cache.
        capture_sizes: CUDA-graph capture sizes in tokens; None means eager.
        device: where the backend's buffers go.
        ubatching: whether builders run on streams of their own.
        speculative_config: an object with `target_model_config` and `target_parallel_config`, or None.
    """
    return bare(
        VllmConfig,
        model_config=model_config(num_heads_q, num_heads_kv, head_size),
        scheduler_config=bare(
            SchedulerConfig, max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens
        ),
        cache_config=bare(CacheConfig, cache_dtype="int4_per_token_head", block_size=block_size),
        parallel_config=bare(ParallelConfig, tensor_parallel_size=1, enable_dbo=ubatching, ubatch_size=0),
        compilation_config=bare(
            CompilationConfig,
            cudagraph_mode=CUDAGraphMode.FULL if capture_sizes else CUDAGraphMode.NONE,
            cudagraph_capture_sizes=capture_sizes or [],
            static_forward_context={},
        ),
        device_config=bare(DeviceConfig, device=torch.device(device), device_type=device),
        speculative_config=speculative_config,
    )
