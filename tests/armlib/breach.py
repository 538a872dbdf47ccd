"""The arm's breach state, whichever type a series returns it as, and sizing that is broken on purpose."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from armlib.production import production, replaced


def _get(state: Any, name: str) -> Any:
    return state[name] if isinstance(state, Mapping) else getattr(state, name)


def breach_state() -> dict[str, Any]:
    """`count`, `degraded`, and `first_tokens` and `first_declared` of the kept specimen (None before any)."""
    state = production("mq3d_breach_state")()
    first = _get(state, "first")
    return {
        "count": _get(state, "count"),
        "degraded": _get(state, "degraded"),
        "first_tokens": first and _get(first, "tokens"),
        "first_declared": first and _get(first, "declared"),
    }


@contextmanager
def declared_capacity(capacity: int) -> Iterator[None]:
    """The plan, and with it declaration and allocation, says `capacity`."""
    original = production("mq3d_scratch_plan")

    def shrunk(*args: Any, **kwargs: Any) -> Any:
        plan = copy.copy(original(*args, **kwargs))
        object.__setattr__(plan, "capacity", capacity)
        return plan

    with replaced("mq3d_scratch_plan", shrunk):
        yield


@contextmanager
def allocated_rows(rows: int, instead_of: int) -> Iterator[None]:
    """Whatever allocates `instead_of` rows gets `rows`: the allocation alone is changed."""
    original = torch.empty

    def other(*size: Any, **kwargs: Any) -> torch.Tensor:
        shape = list(size[0]) if len(size) == 1 and isinstance(size[0], tuple | list) else list(size)
        if shape and shape[0] == instead_of:
            shape[0] = rows
        return original(shape, **kwargs)

    torch.empty = other
    try:
        yield
    finally:
        torch.empty = original
