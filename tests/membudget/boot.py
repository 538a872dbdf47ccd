"""An accounted boot: the arm's production classes, constructed in the order of the arm's own source."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch
from accounting import BootAccount, BuilderSeen, Ledger, backend_lines, storage_id
from armlib.attention import CACHE_DTYPE, Geometry
from armlib.builder import int4_spec
from armlib.production import NotInArmError, arm_root, production, surface_modules
from model import DEVICE, DRAFTER, GROUPS, TARGET, TARGET_LAYERS, Setting, drafter_config, target_config
from source_order import Event, boot_order, read_sources
from vllm.config import set_current_vllm_config
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend, TritonAttentionImpl

Break = Callable[[], AbstractContextManager[None]]
"""A deliberate break: entered before the boot, left after it."""

LOAD = "load"
WINDOW = "window"
PROFILING = "profiling builders"
"""Builders for the estimate of graph memory, dropped again: after the profile, before the budget is fixed."""
SERVING = "builders"
AFTER = (PROFILING, SERVING)
"""Phases whose bytes no KV budget knows."""

# A boot collects garbage several times; what the imports left behind need not be looked at each time.
gc.freeze()


class Layer(AttentionLayerBase):
    """What the engine's registry of layers holds: an Impl with its backend and cache spec."""

    def __init__(self, impl: TritonAttentionImpl, geometry: Geometry) -> None:
        self.impl = impl
        self.num_heads = geometry.heads_q
        self.spec = int4_spec(geometry.heads_kv, geometry.head_size)

    def get_attn_backend(self) -> type[TritonAttentionBackend]:
        """The backend under test."""
        return TritonAttentionBackend

    def get_kv_cache_spec(self, vllm_config: Any) -> Any:
        """The layer's own: head size and KV heads of its own model."""
        return self.spec


class Boot:
    """One boot, step by step; `account` is its result."""

    def __init__(self, setting: Setting, order: list[Event]) -> None:
        self.setting = setting
        self.config = target_config(setting)
        self.order = order
        self.ledger = Ledger()
        self.builders: list[Any] = []
        self.inside = False
        self.account = BootAccount(
            arm=os.environ.get("FORKPROOF_ARM", "?"),
            max_num_seqs=setting.max_num_seqs,
            ubatching=setting.ubatching,
            order=[event.value for event in order],
        )

    def run(self) -> BootAccount:
        """Take every step in order and close the books."""
        with backend_lines(self.ledger) as lines, self.ledger:
            for position, event in enumerate(self.order):
                self.step(event, last=Event.BUILDERS not in self.order[position + 1 :])
        self.account.lines = lines
        self.account.allocations = self.ledger.closed()
        self.account.builders = [
            seen(builder, declared) for builder, declared in zip(self.builders, self.declared(), strict=True)
        ]
        return self.account

    def declared(self) -> list[int | None]:
        """What each serving builder said that its set holds: builders speak in the order they are made."""
        said = [
            line.plan.get("declared") for line in self.account.lines if line.phase == SERVING and line.plan
        ]
        return said if len(said) == len(self.builders) else [None] * len(self.builders)

    def step(self, event: Event, last: bool) -> None:
        """One event; `last` says that no builders are made after this one."""
        if event is Event.LOAD_MODEL:
            self.ledger.phase = LOAD
            self.load(self.config, TARGET, TARGET_LAYERS)
            self.load(drafter_config(self.config), DRAFTER, self.setting.drafter_layers)
        elif event is Event.WINDOW_OPENS:
            self.ledger.phase, self.inside = WINDOW, True
        elif event is Event.WINDOW_CLOSES:
            gc.collect()
            self.account.counted_bytes = self.ledger.alive_bytes()
            self.inside = False
        elif event is Event.BUILDERS:
            if not self.inside:
                self.ledger.phase = SERVING if last else PROFILING
            self.make_builders()
            if not last:
                self.builders.clear()
                gc.collect()

    def load(self, config: Any, geometry: Geometry, layers: int) -> None:
        """Construct the Impl of every attention layer of one model, as its layers do."""
        registry = self.config.compilation_config.static_forward_context
        with set_current_vllm_config(config), torch.device(DEVICE):
            for index in range(layers):
                impl = TritonAttentionImpl(
                    geometry.heads_q,
                    geometry.head_size,
                    geometry.softmax_scale,
                    geometry.heads_kv,
                    None,
                    None,
                    CACHE_DTYPE,
                )
                registry[f"{geometry.heads_q}.layers.{index}"] = Layer(impl, geometry)
        self.account.impls += layers

    def make_builders(self) -> None:
        """The builders of all KV groups, two of each under ubatching, from the engine's configuration."""
        if self.setting.builder_captures is not None:
            self.config.compilation_config.cudagraph_capture_sizes = list(self.setting.builder_captures)
        copies = self.config.parallel_config.num_ubatches if self.setting.ubatching else 1
        builder_class = TritonAttentionBackend.get_builder_cls()
        for names, layer in self.groups():
            for _ in range(copies):
                self.builders.append(builder_class(layer.spec, names, self.config, torch.device(DEVICE)))

    def groups(self) -> Iterator[tuple[list[str], Layer]]:
        """Layer names of each KV group, and one of its layers."""
        registry = self.config.compilation_config.static_forward_context
        for geometry in (TARGET, DRAFTER):
            names = [name for name, layer in registry.items() if layer.num_heads == geometry.heads_q]
            for group in range(GROUPS):
                yield names[group::GROUPS] or names, registry[names[0]]


def seen(builder: Any, declared: int | None) -> BuilderSeen:
    """What a builder holds: its scratch is told by its four dimensions, whatever a series calls it."""
    (output,) = [tensor for tensor in tensors_of(builder) if tensor.ndim == 4]
    return BuilderSeen(builder.num_heads_q, storage_id(output), output.shape[0], declared)


def tensors_of(held: Any, depth: int = 3) -> list[torch.Tensor]:
    """Tensors that an object holds, each storage once, also through what it adopted."""
    found: dict[int, torch.Tensor] = {}
    for value in vars(held).values() if hasattr(held, "__dict__") else ():
        if isinstance(value, torch.Tensor):
            found.setdefault(storage_id(value), value)
        elif depth > 1 and type(value).__module__.startswith("vllm.v1.attention"):
            found = {storage_id(one): one for one in tensors_of(value, depth - 1)} | found
    return list(found.values())


def plans_of(setting: Setting) -> dict[int, dict[str, int]]:
    """By query heads: what the arm plans for this setting; empty for an arm that plans nothing."""
    try:
        plan_of = production("mq3d_scratch_plan")
    except NotInArmError:
        return {}
    config = target_config(setting)
    plans = {}
    for geometry in (TARGET, DRAFTER):
        plan = plan_of(config, geometry.heads_q)
        plans[geometry.heads_q] = {
            "capacity": plan.capacity,
            "row_bytes": plan.row_bytes,
            "total_bytes": plan.capacity * plan.row_bytes,
        }
    return plans


@cache
def arm_order(root: Path, runner: str) -> list[Event]:
    """The order that the arm's source gives; read once, since the model runner is a long file."""
    return boot_order(read_sources(root, runner))


def boot(setting: Setting, broken: Break = nullcontext, order: list[Event] | None = None) -> BootAccount:
    """Boot the arm under test.

    Args:
        setting: the configuration.
        broken: a deliberate break that holds during the boot.
        order: events to follow; by default those of the arm's own source.
    """
    surface_modules()
    steps = order or arm_order(arm_root(), setting.runner)
    with emptied_pool():
        plans = plans_of(setting)
        with broken():
            account = Boot(setting, steps).run()
    account.plans = plans
    return account


@contextmanager
def emptied_pool() -> Iterator[None]:
    """Let nothing of an earlier boot in this process be adopted by this one."""
    gc.collect()
    yield
    gc.collect()
