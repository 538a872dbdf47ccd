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
PULL = 8.0
"""Length of the part that all queries have in common where a sequence's first key is special."""


class First(NamedTuple):
    """A first key of every sequence for which all queries score alike."""

    lead: float
    """How far its score is ahead of the others, in nats."""
    value: float
    """Its value over those of the others."""


SINK = First(lead=15.0, value=1e-6)
"""e^15 is beyond the range of a half float, and what is left to the others makes the result."""
SHUNNED = First(lead=-30.0, value=1e5)
"""Nobody looks at the largest value of the sequence."""


RUN = 40
"""Values of one size in a row: more than a tile and no multiple of it, so that tiles and segments differ."""


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
    """The direction that they share, [head size], and vectors [..., head size] without it."""
    common = torch.full(
        vectors.shape[-1:], vectors.shape[-1] ** -0.5, dtype=vectors.dtype, device=vectors.device
    )
    return common, vectors - (vectors @ common)[..., None] * common


def set_first(key: torch.Tensor, value: torch.Tensor, seq_lens: Sequence[int], first: First) -> None:
    """Make the first key of every sequence a special one.

    Args:
        key, value: [sum of sequence lengths, heads, head size], changed in place.
        seq_lens: tokens per sequence.
        first: what it is.
    """
    common, rest = along(key)
    key[:] = rest
    rows = torch.tensor([0, *seq_lens[:-1]]).cumsum(0)
    key[rows] = common * (first.lead / PULL * key.shape[-1] ** 0.5)
    value[rows] *= first.value


def toward_first(query: torch.Tensor) -> torch.Tensor:
    """Queries [tokens, heads, head size] for all of which the first keys are ahead by the same."""
    common, rest = along(query)
    return rest + PULL * common
