"""Keys and values put into a layer's cache without the arm's write kernel.

The interpreter takes over 10 ms for each token that the arm's own update writes. What is measured over a
long history reads the cached bytes, whoever wrote them; the case `cache-write` bounds the arm's write.
"""

from __future__ import annotations

import torch
from armlib.attention import Batch, Layer
from reference import transform

STEPS = 15
"""Between the smallest and the largest value of a vector: nibbles are 0 to 15."""


def records(source: torch.Tensor) -> torch.Tensor:
    """Transform and quantise vectors as the cache holds them; the layout is told in `reference`.

    Args:
        source: [tokens, KV heads, head size].

    Returns:
        uint8 [tokens, KV heads, head size / 2 + 4].
    """
    rotated = transform(source).to(source.dtype).float()
    low, high = rotated.amin(-1, keepdim=True), rotated.amax(-1, keepdim=True)
    step = ((high - low) / STEPS).clamp(min=1e-6)
    zero = (-low / step).round().clamp(0, STEPS)
    nibbles = (rotated / step + zero).round().clamp(0, STEPS).to(torch.uint8)
    packed = nibbles[..., 0::2] | (nibbles[..., 1::2] << 4)
    bits = (step.view(torch.int32) & ~0xF) | zero.to(torch.int32)
    return torch.cat((packed, bits.view(torch.uint8)), dim=-1)


def fill(layer: Layer, batch: Batch, key: torch.Tensor, value: torch.Tensor) -> None:
    """What `Layer.write` does, the arm writing the first token only.

    Args:
        layer: owns the cache.
        batch: the sequences.
        key, value: [sum of sequence lengths, KV heads, head size].
    """
    slots, size = layer.slots(batch), layer.geometry.block_size
    # The arm sets the scales of a cache that it has not seen to one, so it sees it first.
    layer.impl.do_kv_cache_update(layer.module, key[:1], value[:1], layer.kv_cache, slots[:1])
    both = torch.cat((records(key), records(value)), dim=-1)
    layer.kv_cache[slots // size, :, slots % size] = both
