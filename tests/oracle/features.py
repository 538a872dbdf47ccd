"""Layers that the packed kernel leaves to the general split-KV kernel, and the name of each refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from armlib.attention import Batch, Geometry
from cases import DEVICE, FLAG_OFF, packed_refused
from shapes import HERE, UNALIGNED

BATCH = Batch((8,), UNALIGNED)
SOFT_CAP = 1.0
"""One standard deviation of the scores, so that it changes most of them."""
WINDOW = 33
"""Keys that a query sees: fewer than there are, and no multiple of a block."""


@dataclass(frozen=True)
class Feature:
    """A layer with one feature of the general kernel, and the refusal of the packed one that it causes."""

    name: str
    refusal: str
    """Without its prefix `packed_`."""
    arguments: Callable[[Geometry], dict[str, Any]] = lambda _: {}
    """Of the Impl, by its geometry."""
    geometry: Geometry = HERE
    plain: bool = False
    """Whether it computes plain attention still."""

    @property
    def reasons(self) -> tuple[str, str]:
        """Per leg (flag 0, flag 1), the reason its debug line must give."""
        return FLAG_OFF, packed_refused(self.refusal)


def alibi_slopes(geometry: Geometry) -> dict[str, Any]:
    """Slopes from 2^-5 down to 2^-8, spread over the heads: steeper ones leave outputs beyond 32."""
    return {"alibi_slopes": torch.logspace(-5, -8, geometry.heads_q, base=2.0).tolist()}


def sinks(geometry: Geometry) -> dict[str, Any]:
    """A sink per head with the weight of a few keys."""
    return {"sinks": torch.linspace(1.0, 3.0, geometry.heads_q, device=DEVICE)}


FEATURES = [
    Feature("feature-softcap", "softcap", lambda _: {"logits_soft_cap": SOFT_CAP}),
    Feature("feature-sliding-window", "sliding_window", lambda _: {"sliding_window": WINDOW}),
    Feature("feature-sinks", "sinks", sinks),
    Feature("feature-alibi", "alibi", alibi_slopes),
    Feature("feature-head-32", "head_size", geometry=replace(HERE, head_size=32), plain=True),
]
