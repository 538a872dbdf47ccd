"""Deliberate breaks of a boot, put around production code before the engine is made."""

from __future__ import annotations

import copy
import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

SURFACE = (
    "vllm.v1.attention.backends.triton_attn",
    "vllm.v1.attention.ops.int4_per_token_head",
    "vllm.v1.attention.ops.triton_unified_attention",
)
PLAN = "mq3d_scratch_plan"
DECLARED = 8
"""The capacity that the second published mutation declares, in query tokens."""


def replace_everywhere(name: str, make: Callable[[Any], Any]) -> None:
    """Put `make(original)` in place of a production object wherever vLLM's modules hold it."""
    surface = [importlib.import_module(module) for module in SURFACE]
    original = next(getattr(module, name) for module in surface if hasattr(module, name))
    new = make(original)
    for module in vllm_modules():
        if getattr(module, name, None) is original:
            setattr(module, name, new)


def vllm_modules() -> list[ModuleType]:
    """Modules of vLLM that have been imported."""
    return [module for name, module in list(sys.modules.items()) if name.startswith("vllm.")]


def declared_capacity() -> None:
    """The plan, and with it declaration and allocation, says 8 query tokens: batches of 9 breach."""

    def make(original: Any) -> Any:
        def shrunk(*args: Any, **kwargs: Any) -> Any:
            plan = copy.copy(original(*args, **kwargs))
            object.__setattr__(plan, "capacity", DECLARED)
            return plan

        return shrunk

    replace_everywhere(PLAN, make)


class ShortTorch(ModuleType):
    """torch as one module sees it: all of it, with another `empty`. torch itself stays as it is, because
    a device context and compiled code know its functions by identity."""

    def __init__(self, torch: ModuleType, empty: Callable[..., Any]) -> None:
        super().__init__(torch.__name__)
        self._torch = torch
        self.empty = empty

    def __getattr__(self, name: str) -> Any:
        """Whatever torch has."""
        return getattr(self._torch, name)


def sequence_units() -> None:
    """What allocates the planned rows gets one per sequence; the declaration stays: the boot must refuse."""
    import torch

    plans: list[Any] = []

    def make(original: Any) -> Any:
        def noted(*args: Any, **kwargs: Any) -> Any:
            plans.append(original(*args, **kwargs))
            return plans[-1]

        return noted

    def short(*size: Any, **kwargs: Any) -> torch.Tensor:
        shape = list(size[0]) if len(size) == 1 and isinstance(size[0], tuple | list) else list(size)
        planned = {(plan.capacity, plan.num_heads_q): plan for plan in plans}
        plan = planned.get((shape[0], shape[1])) if len(shape) in (3, 4) else None
        if plan is not None:
            shape[0] = min(plan.max_num_seqs, plan.seq_threshold_3D)
        return torch.empty(shape, **kwargs)

    replace_everywhere(PLAN, make)
    for name in SURFACE:
        module = importlib.import_module(name)
        if getattr(module, "torch", None) is torch:
            vars(module)["torch"] = ShortTorch(sys.modules["torch"], short)


BREAKS: dict[str, Callable[[], None]] = {"declared-8": declared_capacity, "sequence-units": sequence_units}
"""By the value of FORKPROOF_BREAK."""
