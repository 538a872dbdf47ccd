"""Asking the arm for its plan, at any grid point, without writing its formula again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from armlib.config import vllm_config
from armlib.production import NotInArmError, production, replaced
from vectors import Configuration

LAUNCH_GRID_2D = 128
"""vLLM prefers the split-KV kernel up to 128 // num_kv_heads sequences: its MIN_LAUNCH_GRID_SIZE_2D."""

PlanCall = Callable[..., Any]


@functools.cache
def config_for(max_num_batched_tokens: int, max_num_seqs: int, seq_threshold: int) -> Any:
    """An eager configuration whose sequence threshold is `seq_threshold`, through its KV head count.

    The same object for the same point: nobody may change it.
    """
    heads_kv = LAUNCH_GRID_2D // seq_threshold
    return vllm_config(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        num_heads_kv=heads_kv,
        num_heads_q=heads_kv,
    )


def capacity_with_cap(plan: PlanCall, config: Any, cap: int) -> int:
    """The arm's capacity, in query tokens, when one sequence may bring `cap` of them.

    The arm's own constant is MAX_QUERY_LEN_3D. Where the plan takes it as a defaulted parameter that
    parameter is passed; otherwise the constant is replaced for the call.
    """
    heads_q = config.model_config.get_num_attention_heads(config.parallel_config)
    constant = production("MAX_QUERY_LEN_3D")
    for parameter in inspect.signature(plan).parameters.values():
        if parameter.default == constant and type(parameter.default) is int:
            return int(plan(config, heads_q, **{parameter.name: cap}).capacity)
    with replaced("MAX_QUERY_LEN_3D", cap):
        return int(plan(config, heads_q).capacity)


def planned_capacity(owner: Any, configuration: Configuration) -> int:
    """The arm's capacity, in query tokens, at a grid point."""
    config = config_for(
        configuration.max_num_batched_tokens, configuration.max_num_seqs, configuration.seq_threshold
    )
    return capacity_with_cap(owner.mq3d_scratch_plan, config, configuration.max_query_len)


def check_cap_is_heard(plan: PlanCall) -> None:
    """Raise NotInArmError when the plan does not change with the cap: the grid would then prove nothing."""
    config = config_for(131072, 64, 64)
    if capacity_with_cap(plan, config, 1) == capacity_with_cap(plan, config, 32):
        raise NotInArmError(
            "the arm's plan cannot be asked for another query-length cap than MAX_QUERY_LEN_3D"
        )
