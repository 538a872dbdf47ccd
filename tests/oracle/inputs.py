"""What keys and values look like: standard-normal, and four ways in which those of real models are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from cases import DEVICE

DEGREES = 3
"""Of freedom of Student's t: its variance is finite and its fourth moment is not."""
OUTLIER_FACTORS = (20.0, 30.0, 40.0, 50.0)
"""How much larger the first channels of every head are than the rest."""
OFFSET = 4.0
"""Added to every value, in standard deviations."""
SINK_LEAD = 15.0
"""How far the score of a sequence's first key is ahead, in nats: e^15 is beyond the range of a half float."""
SINK_VALUE = 1e-6
"""The value of that key over those of the others: so little that what is left to them makes the result."""
SINK_PULL = 8.0
"""Length of the part that all queries have in common."""


RUN = 24
"""Values of one size that follow each other: no multiple of a tile, so that tiles of a segment differ."""


class Times(NamedTuple):
    """How much larger queries, keys and values are than their kind."""

    query: float = 1.0
    key: float = 1.0
    value: float = 1.0
    every_other: float = 1.0
    """Every second run of `RUN` values once more."""


ONCE = Times()


def standard_normal(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Mean 0, variance 1."""
    return torch.randn(shape, generator=generator)


def heavy_tailed(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Student's t: a normal value over the root of a mean of squares of others."""
    squares = sum(torch.randn(shape, generator=generator) ** 2 for _ in range(DEGREES))
    return torch.randn(shape, generator=generator) / torch.sqrt(squares / DEGREES)


def outlier_channels(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Normal values, a few channels of every head far larger than the rest."""
    values = torch.randn(shape, generator=generator)
    values[..., : len(OUTLIER_FACTORS)] *= torch.tensor(OUTLIER_FACTORS)
    return values


def offset(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Normal values around a constant that is not zero."""
    return torch.randn(shape, generator=generator) + OFFSET


INPUTS: dict[str, Callable[[tuple[int, ...], torch.Generator], torch.Tensor]] = {
    "normal": standard_normal,
    "heavy-tailed": heavy_tailed,
    "outlier-channels": outlier_channels,
    "offset": offset,
}


def draw(shape: tuple[int, ...], seed: int, dtype: torch.dtype, inputs: str = "normal") -> torch.Tensor:
    """Values of one of the kinds above, the same on every device."""
    return INPUTS[inputs](shape, torch.Generator().manual_seed(seed)).to(dtype).to(DEVICE)


def along(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The direction that queries and sinks share, [head size], and vectors [..., head size] without it."""
    common = torch.full(
        vectors.shape[-1:], vectors.shape[-1] ** -0.5, dtype=vectors.dtype, device=vectors.device
    )
    return common, vectors - (vectors @ common)[..., None] * common


def add_sinks(key: torch.Tensor, value: torch.Tensor, seq_lens: Sequence[int]) -> None:
    """Make the first key of every sequence one that all queries look at and that says next to nothing.

    Args:
        key, value: [sum of sequence lengths, heads, head size], changed in place.
        seq_lens: tokens per sequence.
    """
    common, rest = along(key)
    key[:] = rest
    first = torch.tensor([0, *seq_lens[:-1]]).cumsum(0)
    key[first] = common * (SINK_LEAD / SINK_PULL * key.shape[-1] ** 0.5)
    value[first] *= SINK_VALUE


def toward_sinks(query: torch.Tensor) -> torch.Tensor:
    """Queries [tokens, heads, head size] for all of which the sinks are ahead by the same."""
    common, rest = along(query)
    return rest + SINK_PULL * common
