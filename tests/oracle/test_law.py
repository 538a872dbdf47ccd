"""The error law of the arm, for values that are not normal too, and the arm that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from armlib.attention import Batch, run_leg
from armlib.builder import make_builder
from armlib.production import NotInArmError, owner_of
from bench import make_bench
from cases import DEVICE, config_for
from damage import dropped_segment, kernel_modules
from law import (
    DECODE_CASE,
    INPUT_CASES,
    LAW_CASES,
    NINE_SEGMENTS,
    NINTH,
    VERIFY,
    LawCase,
    flawed_arm,
    law_errors,
    law_errors_in,
    ratio_to_stock,
)
from reference import SCALE_BYTES

LONGEST = LAW_CASES[-1]
CONTROL = "control-patched-law"


@pytest.mark.parametrize("case", [*LAW_CASES, DECODE_CASE], ids=lambda case: case.name)
def test_error_does_not_grow(case: LawCase, measure: Any, reached: Any) -> None:
    """On both kernels the error stays below one bound, the policy's, however long the context."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    for flag, error in enumerate(law_errors(case)):
        measure(case.name, f"relative_error_flag{flag}", error, unit="1")


def test_never_above_stock(measure: Any, reached: Any) -> None:
    """In no case of the law is the arm further off than stock on the same bytes."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    cases = [*LAW_CASES, DECODE_CASE]
    reason, stock = None, {}
    try:
        stock = law_errors_in("stock", cases)
    except NotInArmError as error:  # a tree without the series' earlier arms
        reason = str(error)
    for case in cases:
        for flag, error in enumerate(law_errors(case)):
            ratio = ratio_to_stock(case, error, stock[case.name]) if stock else None
            measure(case.name, f"ratio_to_stock_flag{flag}", ratio, unit="1", reason=reason)


@pytest.mark.parametrize("scale", [0.0, 2.0**40])
def test_cache_of_zeros(scale: float) -> None:
    """Values of zero leave zeros on both kernels, not NaN: scales of 0, as a warm-up has, and large ones."""
    batch = Batch(VERIFY, NINE_SEGMENTS.history)
    bench = make_bench(NINE_SEGMENTS.geometry, batch, own_write=False)
    bench.layer.kv_cache.zero_()
    bench.layer.kv_cache[..., -SCALE_BYTES:] = torch.tensor([scale]).view(torch.uint8).to(DEVICE)
    builder = make_builder(config_for(NINE_SEGMENTS.geometry), DEVICE)
    for flag in (False, True):
        (call,) = run_leg(bench.layer, builder, batch, bench.query(batch, seed=7), flag).calls
        assert bool((call.output == 0).all())


def test_nine_segments(bound: Callable[[str, str, str], float]) -> None:
    """The case writes 9 segments: the result needs the ninth and would not miss a tenth."""
    if not kernel_modules("reduce_verify_segments"):  # only the packed kernel merges up to 8 in another way
        return
    errors = []
    for segment in (NINTH, NINTH + 1):
        with dropped_segment(segment):
            errors += law_errors(NINE_SEGMENTS, flags=[True])
    limit = bound("oracle", NINE_SEGMENTS.name, "relative_error_flag1")
    assert errors[0] > limit >= errors[1]


def test_inputs(measure: Any, reached: Any, bound: Callable[[str, str, str], float]) -> None:
    """Whatever keys and values look like, the arm is not further off than stock on the same bytes."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    reason, stock = None, {}
    try:
        stock = law_errors_in("stock", [*INPUT_CASES, DECODE_CASE])
    except NotInArmError as error:  # a tree without the series' earlier arms
        reason = str(error)
    for case in INPUT_CASES:
        theirs = stock.get(case.name)
        measure(case.name, "relative_error_stock", theirs, unit="1", reason=reason)
        for flag, error in enumerate(law_errors(case)):
            ratio = None if theirs is None else ratio_to_stock(case, error, theirs)
            measure(case.name, f"relative_error_flag{flag}", error, unit="1")
            measure(case.name, f"ratio_to_stock_flag{flag}", ratio, unit="1", reason=reason)
    with dropped_segment():
        (damaged,) = law_errors(DECODE_CASE, flags=[True])
    ratio = ratio_to_stock(DECODE_CASE, damaged, stock.get(DECODE_CASE.name, 0.0))
    red = ratio > max(bound("oracle", case.name, "ratio_to_stock_flag1") for case in INPUT_CASES)
    measure.control("control-input-ratio", red=red, metric="ratio_to_stock", value=ratio, unit="1")
    assert red


def test_flawed_arm_breaks_the_law(measure: Any, bound: Callable[[str, str, str], float]) -> None:
    """The arm whose error grows with the context exceeds the bound at the longest one."""
    limit = bound("oracle", LONGEST.name, "relative_error_flag1")
    try:
        error = law_errors_in(flawed_arm(), [LONGEST])[LONGEST.name]
    except NotInArmError as none:  # whether the control is red stays unsaid, and so it is missing
        measure(CONTROL, "relative_error", None, unit="1", reason=str(none), control=True)
        return
    measure.control(CONTROL, red=error > limit, metric="relative_error", value=error, unit="1")
    assert error > limit
