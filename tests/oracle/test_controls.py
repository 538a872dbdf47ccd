"""Deliberate breaks that the oracle must catch: each is recorded, and a green one invalidates the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from armlib.attention import Batch, run_leg
from armlib.builder import make_builder
from bench import Bench, Errors, errors_of, worst_write_error
from cases import CAPACITY, CASES, DEVICE, ELIGIBLE, HISTORY, config_for
from child import run_child
from damage import dropped_segment, kernel_global, refused_kernel
from verdict import unusable
from vllm.triton_utils import tl, triton
from vllm.v1.attention.ops import int4_per_token_head as kernels

SMALL_BATCH = Batch((4,), HISTORY)


@triton.jit
def mask_without_self(  # type: ignore[no-untyped-def]  # noqa: ANN201
    query_abs_pos,  # noqa: ANN001
    seq_offset,  # noqa: ANN001
    seq_idx,  # noqa: ANN001
    seq_len,  # noqa: ANN001
    mm_prefix_range_ptr,  # noqa: ANN001
    SLIDING_WINDOW,  # noqa: ANN001, N803
    USE_MM_PREFIX,  # noqa: ANN001, N803
    MAX_MM_RANGES,  # noqa: ANN001, N803
):
    """A causal mask that is wrong by one: no token sees itself."""
    return (seq_offset[None, :] < query_abs_pos).to(tl.int1)


def reference_error(bench: Bench) -> float:
    """Launcher error of one small flag-1 leg."""
    return small_leg_errors(bench).launcher


def small_leg_errors(bench: Bench) -> Errors:
    """Both errors of one small flag-1 leg."""
    builder = make_builder(config_for(bench.geometry), DEVICE)
    query = bench.query(SMALL_BATCH, seed=11)
    leg = run_leg(bench.narrowed(SMALL_BATCH), builder, SMALL_BATCH, query, flag=True)
    assert leg.scratch_written, "the damaged leg must be a 3D one"
    return errors_of(leg, bench, SMALL_BATCH, query)


def test_refused_kernel(narrow: Bench, measure: Any, bound: Any) -> None:
    """A verify batch that is refused the arm's fastest kernel says so, however right its result."""
    builder = make_builder(config_for(narrow.geometry), DEVICE)
    query = narrow.query(SMALL_BATCH, seed=11)
    layer = narrow.narrowed(SMALL_BATCH)
    served = run_leg(layer, builder, SMALL_BATCH, query, flag=True)
    with refused_kernel():
        refused = run_leg(layer, builder, SMALL_BATCH, query, flag=True)
    red = refused.reasons != [ELIGIBLE]
    measure.control("control-packed-refused", red=red)
    assert red
    assert served.reasons == [ELIGIBLE]
    limit = bound("oracle", "hist-[9]", "launcher_ref_flag1")
    assert errors_of(refused, narrow, SMALL_BATCH, query).launcher <= limit


@pytest.mark.cpu_only
def test_wrong_mask(narrow: Bench, measure: Any, bound: Any) -> None:
    """A mask that is off by one exceeds the reference's bound; the interpreter sees it at once."""
    limit = bound("oracle", "hist-[9]", "launcher_ref_flag1")
    with kernel_global("compute_kv_seq_mask", mask_without_self):
        error = reference_error(narrow)
    measure.control("control-wrong-mask", red=error > limit, metric="launcher_ref", value=error, unit="abs")
    assert error > limit


def test_dropped_segment(narrow: Bench, measure: Any, bound: Any) -> None:
    """A segment that is lost between the kernels exceeds the bound; the same batch undamaged does not."""
    limit = bound("oracle", "hist-[9]", "launcher_ref_flag1")
    assert reference_error(narrow) <= limit
    with dropped_segment():
        error = reference_error(narrow)
    measure.control(
        "control-dropped-segment", red=error > limit, metric="launcher_ref", value=error, unit="abs"
    )
    assert error > limit


def test_wrong_inverse_transform(narrow: Bench, measure: Any, bound: Any) -> None:
    """Without the signs on the way back the launcher is still right and the end-to-end bound is exceeded."""
    original = kernels.single_rht

    def without_signs(x: torch.Tensor, inverse: bool = False) -> torch.Tensor:
        return kernels.fast_hadamard_transform(x) if inverse else original(x)

    with kernel_global("single_rht", without_signs):
        errors = small_leg_errors(narrow)
    red = errors.end_to_end > bound("oracle", "hist-[9]", "end_to_end_ref_flag1")
    measure.control(
        "control-wrong-inverse", red=red, metric="end_to_end_ref", value=errors.end_to_end, unit="abs"
    )
    assert red
    assert errors.launcher <= bound("oracle", "hist-[9]", "launcher_ref_flag1")


@pytest.mark.cpu_only
def test_wrong_transform(narrow: Bench, measure: Any, bound: Any) -> None:
    """A transform without its signs exceeds the bound of the write's first step."""
    limit = bound("oracle", "cache-write", "transform_relative")
    assert worst_write_error(narrow).transform_relative <= limit
    with kernel_global("single_rht", kernels.fast_hadamard_transform):
        error = worst_write_error(narrow).transform_relative
    measure.control(
        "control-wrong-transform", red=error > limit, metric="transform_relative", value=error, unit="1"
    )
    assert error > limit


def test_damaged_cache_bytes(narrow: Bench, measure: Any, bound: Any) -> None:
    """One nibble that moved by two steps in one slot exceeds the bound of the write check."""
    limit = bound("oracle", "cache-write", "value_steps")
    cache = narrow.layer.kv_cache
    damaged = replace(narrow, layer=replace(narrow.layer, kv_cache=cache.clone()))
    byte = damaged.layer.kv_cache[0, 0, 0, 0]
    byte.copy_(byte ^ 2)  # two steps, up or down, of the even dimension
    steps = worst_write_error(damaged).steps
    assert worst_write_error(narrow).steps <= limit
    measure.control(
        "control-damaged-cache", red=steps > limit, metric="value_steps", value=steps, unit="steps"
    )
    assert steps > limit


def test_skipped_launcher(narrow: Bench, measure: Any) -> None:
    """A harness that never reaches the launcher is unusable, however right its output looks."""
    builder = make_builder(config_for(narrow.geometry), DEVICE)
    query = narrow.query(SMALL_BATCH, seed=11)
    layer = narrow.narrowed(SMALL_BATCH)

    def bypass(module: Any, q: Any, k: Any, v: Any, cache: Any, metadata: Any, output: torch.Tensor) -> None:
        output.zero_()

    forward, layer.impl.forward = layer.impl.forward, bypass  # type: ignore[method-assign]
    try:
        leg = run_leg(layer, builder, SMALL_BATCH, query, flag=True)
    finally:
        layer.impl.forward = forward  # type: ignore[method-assign]
    caught = unusable(leg) is not None
    measure.control(
        "control-launcher-skipped", red=caught, metric="launches", value=len(leg.calls), unit="calls"
    )
    assert caught


def test_sequence_units(measure: Any) -> None:
    """Declared and allocated in sequence units, exactly the cases that never ask for capacity stay green."""
    reasons = run_child("sequence-units")
    breached = {name for name, reason in reasons.items() if reason == CAPACITY}
    red = breached == {case.name for case in CASES if case.asks_for_capacity}
    green = sorted(set(reasons) - breached)
    # The longest batch is turned away by the length policy: no capacity can concern it.
    left_out = sorted({case.name for case in CASES} - set(reasons))
    measure.control("control-sequence-units", red=red, metric="green", value=" ".join(green), unit="name")
    measure("control-sequence-units", "left_out", " ".join(left_out), unit="name", control=True)
    assert red
    assert green == ["decode-[1]", "policy-[17]"]
    assert left_out == ["wild-[848]"]
