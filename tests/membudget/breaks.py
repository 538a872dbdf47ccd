"""Deliberate breaks around the pool's production code, each of which must turn a rule red."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from armlib.production import production, replaced
from model import DRAFTER

LOAD_ORIGIN, BUILDER_ORIGIN = "model load", "metadata builder"


@contextmanager
def layer_geometry() -> Iterator[None]:
    """The pool is keyed on the geometry of the model that is loading, a drafter's own included."""
    original = production("mq3d_scratch_plan")

    def own(config: Any, *args: Any, **kwargs: Any) -> Any:
        loading_drafter = config.model_config.get_num_kv_heads(config.parallel_config) == DRAFTER.heads_kv
        if loading_drafter:
            config = copy.copy(config)
            config.speculative_config = None
        return original(config, *args, **kwargs)

    with replaced("mq3d_scratch_plan", own):
        yield


@contextmanager
def builders_allocate() -> Iterator[None]:
    """A builder takes what it is given and then allocates its own: every line still says adopted."""
    original = production("mq3d_scratch_acquire")

    def again(plan: Any, device: Any, origin: str, exclusive: bool = False) -> Any:
        held = original(plan, device, origin, exclusive=exclusive)
        return renewed(held) if origin == BUILDER_ORIGIN else held

    with replaced("mq3d_scratch_acquire", again):
        yield


def renewed(held: Any) -> Any:
    """A copy of what the arm handed out, with tensors of its own."""
    if isinstance(held, torch.Tensor):
        return torch.empty_like(held)
    if not hasattr(held, "__dict__"):
        return held
    twin = copy.copy(held)
    for name, value in vars(held).items():
        if isinstance(value, torch.Tensor) or hasattr(value, "__dict__"):
            object.__setattr__(twin, name, renewed(value))
    return twin


@contextmanager
def pool_disabled() -> Iterator[None]:
    """Layers allocate nothing, and no builder finds what another one allocated."""
    original = production("mq3d_scratch_acquire")

    def alone(plan: Any, device: Any, origin: str, exclusive: bool = False) -> Any:
        return None if origin == LOAD_ORIGIN else original(plan, device, origin, exclusive=True)

    with replaced("mq3d_scratch_acquire", alone):
        yield


@contextmanager
def never_exclusive() -> Iterator[None]:
    """Builders on streams of their own share sets as others do."""
    original = production("mq3d_scratch_acquire")

    def shared(plan: Any, device: Any, origin: str, exclusive: bool = False) -> Any:
        return original(plan, device, origin, exclusive=False)

    with replaced("mq3d_scratch_acquire", shared):
        yield
