"""An attention of our own over the bytes in the cache.

It shares nothing with the arm but those bytes and their layout: its own unpacking of nibbles, zero points and
scales, its own Hadamard transform, and plain attention with an explicit causal mask.

Cache layout, per block, KV head and slot: [K nibbles | K scale | V nibbles | V scale]. A nibble byte holds
the even dimension in its low half. The scale is fp32; its four lowest mantissa bits carry the zero point.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from armlib.attention import Batch, Layer

SCALE_BYTES = 4
PLAIN: Mapping[str, Any] = MappingProxyType({})
"""Attention without features."""
SIGN_SEED = 0x9E3779B9
"""vLLM draws the transform's signs from a generator with this seed."""


@dataclass(frozen=True)
class Dequantised:
    """One sequence's half of the cache in the transformed domain."""

    values: torch.Tensor
    """[tokens, KV heads, head size], in the dtype asked for."""
    scale: torch.Tensor
    """[tokens, KV heads], zero point bits cleared."""
    zero_point: torch.Tensor
    """[tokens, KV heads], 0..15."""
    nibbles: torch.Tensor
    """[tokens, KV heads, head size], 0..15."""


def dequantise(layer: Layer, row: int, length: int, part: int, dtype: torch.dtype) -> Dequantised:
    """Read one sequence back from the cached bytes.

    Args:
        layer: owns cache and block table.
        row: the sequence.
        length: its tokens.
        part: 0 for keys, 1 for values.
        dtype: of the dequantised values (float32 or float64).
    """
    head_size, size = layer.geometry.head_size, layer.geometry.block_size
    position = torch.arange(length, device=layer.kv_cache.device)
    block = layer.block_table[row, position // size].long()
    half = head_size // 2 + SCALE_BYTES
    # [tokens, KV heads, bytes]
    record = layer.kv_cache[block, :, position % size, part * half : (part + 1) * half].contiguous()
    packed = record[..., : head_size // 2].to(torch.int32)
    bits = record[..., head_size // 2 :].contiguous().view(torch.int32).squeeze(-1)
    nibbles = torch.stack((packed & 0xF, packed >> 4), dim=-1).flatten(-2)
    zero_point = bits & 0xF
    scale = (bits & ~0xF).view(torch.float32)
    values = (nibbles - zero_point.unsqueeze(-1)).to(dtype) * scale.to(dtype).unsqueeze(-1)
    return Dequantised(values, scale, zero_point, nibbles)


def attention(
    query: torch.Tensor,
    layer: Layer,
    batch: Batch,
    scale: float,
    dtype: torch.dtype = torch.float32,
    features: Mapping[str, Any] = PLAIN,
) -> torch.Tensor:
    """Causal attention of every sequence over its dequantised cache.

    Args:
        query: [tokens, query heads, head size], in the domain of the cache.
        layer: owns the cache.
        batch: the sequences.
        scale: multiplies query x key.
        dtype: of all arithmetic.
        features: of the layer, by the names of vLLM's Impl: `logits_soft_cap` bends scores below it,
            `sliding_window` is the number of keys seen, `sinks` a further score per head without a value, and
            `alibi_slopes` what a key loses per head and token of distance.

    Returns:
        [tokens, query heads, head size] in `dtype`; rows of padding tokens do not exist here.
    """
    group = layer.geometry.heads_q // layer.geometry.heads_kv
    parts = []
    for row, (start, count, length) in enumerate(
        zip(batch.starts, batch.q_lens, batch.seq_lens, strict=False)
    ):
        if count == 0:
            continue
        keys, values = (dequantise(layer, row, length, part, dtype).values for part in (0, 1))
        distance = (
            torch.arange(length - count, length, device=query.device)[:, None]
            - torch.arange(length, device=query.device)[None, :]
        )
        visible = (distance >= 0) & (distance < features.get("sliding_window", length))
        heads = []
        for head in range(layer.geometry.heads_q):
            q = query[start : start + count, head].to(dtype)
            score = (q @ keys[:, head // group].T) * scale
            if "logits_soft_cap" in features:
                score = features["logits_soft_cap"] * torch.tanh(score / features["logits_soft_cap"])
            if "alibi_slopes" in features:
                score = score - features["alibi_slopes"][head] * distance
            score = score.masked_fill(~visible, float("-inf"))
            if "sinks" in features:
                score = torch.cat((score, features["sinks"][head].to(dtype).expand(count, 1)), dim=-1)
            weight = torch.softmax(score, dim=-1)[:, :length]
            heads.append(weight @ values[:, head // group])
        parts.append(torch.stack(heads, dim=1))
    return torch.cat(parts)


@functools.cache
def hadamard(size: int) -> torch.Tensor:
    """The Sylvester matrix: entry (i, j) is minus one to the number of bits that i and j share."""
    index = torch.arange(size)
    shared = index[:, None] & index[None, :]
    parity = torch.zeros_like(shared)
    for bit in range(size.bit_length()):
        parity ^= (shared >> bit) & 1
    return (1 - 2 * parity).to(torch.float64)


@functools.cache
def signs(size: int) -> torch.Tensor:
    """The fixed signs that are applied before the Hadamard matrix."""
    draw = torch.bernoulli(torch.full((size,), 0.5), generator=torch.Generator().manual_seed(SIGN_SEED))
    return (2 * draw - 1).to(torch.float64)


def transform(x: torch.Tensor) -> torch.Tensor:
    """Signs, then the unnormalised Hadamard matrix, along the last dimension; float64."""
    size = x.shape[-1]
    return (x.double() * signs(size).to(x.device)) @ hadamard(size).to(x.device)


def inverse_transform(x: torch.Tensor) -> torch.Tensor:
    """Undo `transform`; float64."""
    size = x.shape[-1]
    return (x.double() @ hadamard(size).to(x.device)) * signs(size).to(x.device) / size


def end_to_end(
    query: torch.Tensor, layer: Layer, batch: Batch, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """What the layer should return for the untransformed query: [tokens, query heads, head size]."""
    scale = layer.geometry.softmax_scale / layer.geometry.head_size
    rotated = attention(transform(query).to(dtype), layer, batch, scale, dtype)
    return inverse_transform(rotated)


@dataclass(frozen=True)
class WriteError:
    """How far the cached bytes are from what was written, over keys and values."""

    transform_relative: float
    """Largest |transformed - exact transform|, relative to the vector's largest value."""
    scale_relative: float
    """Largest |cached scale / exact scale - 1|; four mantissa bits carry the zero point."""
    zero_point: float
    """Largest |zero point - exact zero point|, in steps; rounding allows 0.5."""
    steps: float
    """Largest |dequantised - transformed| in quantisation steps; rounding allows 0.5."""


def write_error(
    source: torch.Tensor, rotated: torch.Tensor, layer: Layer, row: int, length: int, part: int
) -> WriteError:
    """Compare cached bytes with their source in the two steps of a write: transform, then quantise.

    A GPU's transform may work in bf16, by far coarser than the rounding of a scale: one bound over both
    steps would have to be loose enough to hide an error of the quantiser.

    Args:
        source: [tokens, KV heads, head size] as given to the cache update.
        rotated: the same after the arm's own transform, in the activation type.
        layer: owns the cache.
        row: the sequence.
        length: its tokens.
        part: 0 for keys, 1 for values.
    """
    exact = transform(source[:length])
    given = rotated[:length].double()
    low, high = given.amin(-1), given.amax(-1)
    step = (high - low) / 15
    zero = (-low / step).clamp(0, 15)
    cached = dequantise(layer, row, length, part, torch.float64)
    return WriteError(
        transform_relative=float(((given - exact).abs().amax(-1) / exact.abs().amax(-1)).max()),
        scale_relative=float((cached.scale.double() / step - 1).abs().max()),
        zero_point=float((cached.zero_point - zero).abs().max()),
        steps=float(((cached.values - given) / step.unsqueeze(-1)).abs().max()),
    )
