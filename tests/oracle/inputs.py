"""What keys and values look like: standard-normal, and three ways in which those of real models are not."""

from __future__ import annotations

from collections.abc import Callable

import torch
from cases import DEVICE

DEGREES = 3
"""Of freedom of Student's t: its variance is finite and its fourth moment is not."""
OUTLIER_FACTORS = (20.0, 30.0, 40.0, 50.0)
"""How much larger the first channels of every head are than the rest."""
OFFSET = 4.0
"""Added to every value, in standard deviations."""


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
