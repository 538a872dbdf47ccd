"""The served model as a boot sees it: how many attention layers of which geometry, and which builders follow.

Numbers of the specification: 64 layers of which 16 are full attention (24 query heads, 4 KV heads, head size
256; the other 48 are linear attention and have no attention Impl), a drafter with 32 query heads, 8 KV heads
and head size 128, two builders for each of the two.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from armlib.attention import Geometry
from armlib.config import model_config, vllm_config

TARGET = Geometry(heads_q=24, heads_kv=4, head_size=256)
DRAFTER = Geometry(heads_q=32, heads_kv=8, head_size=128)
TARGET_LAYERS = 16
DRAFTER_LAYERS = 5
"""Not published; no number may depend on it, and a test varies it."""
GROUPS = 2
"""KV groups, and so builders, of each geometry."""
DRAFT_DEPTH = 7
MAX_NUM_BATCHED_TOKENS = 2048
DEVICE = "meta"
"""Shapes and sizes only: the largest of these boots would take a GiB."""


@dataclass(frozen=True)
class Setting:
    """What differs between two boots of one arm."""

    max_num_seqs: int
    load_captures: tuple[int, ...] | None = None
    """Capture sizes while the model loads; None for those that vLLM chooses for this depth."""
    builder_captures: tuple[int, ...] | None = None
    """Capture sizes when builders are made, re-rounded by then; None for the same."""
    drafter_layers: int = DRAFTER_LAYERS
    ubatching: bool = False
    runner: str = "v1"

    def with_seqs(self, max_num_seqs: int) -> Setting:
        """The same with another `max_num_seqs`."""
        return replace(self, max_num_seqs=max_num_seqs)


def default_captures(max_num_seqs: int) -> list[int]:
    """Capture sizes up to the verify batch: [1, 2, 4, 8] for one sequence at depth 7, as published."""
    largest = max_num_seqs * (DRAFT_DEPTH + 1)
    return [1, 2, 4, *range(8, largest + 1, 8)]


def target_config(setting: Setting) -> Any:
    """The engine's configuration: the target model, and the drafter beside it."""
    config = vllm_config(
        max_num_seqs=setting.max_num_seqs,
        max_num_batched_tokens=MAX_NUM_BATCHED_TOKENS,
        num_heads_q=TARGET.heads_q,
        num_heads_kv=TARGET.heads_kv,
        head_size=TARGET.head_size,
        capture_sizes=list(setting.load_captures or default_captures(setting.max_num_seqs)),
        device=DEVICE,
        ubatching=setting.ubatching,
    )
    config.speculative_config = SimpleNamespace(
        target_model_config=config.model_config, target_parallel_config=config.parallel_config
    )
    return config


def drafter_config(config: Any) -> Any:
    """The configuration that is current while a drafter loads: its own model, all else the engine's."""
    own = copy.copy(config)
    own.model_config = model_config(DRAFTER.heads_q, DRAFTER.heads_kv, DRAFTER.head_size)
    return own
