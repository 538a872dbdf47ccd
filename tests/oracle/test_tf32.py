"""The emulated tf32 dot and the filled cache: what the law stands on where there is no card."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from armlib.attention import Batch, run_leg
from armlib.builder import make_builder
from armlib.production import owner_of
from bench import make_bench, worst_write_error
from cases import DEVICE, NARROW, config_for
from tf32 import tf32_emulated, truncated
from vllm.triton_utils import tl, triton

pytestmark = pytest.mark.cpu_only

SIZE = 16
KEPT, LOST = 2.0**-10, 2.0**-11
"""The lowest mantissa bit of 1 that tf32 has, and the highest that it lacks."""


@triton.jit
def multiply(a_ptr, b_ptr, c_ptr, SIZE: tl.constexpr, PRECISION: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, N803
    """C = A B, each [SIZE, SIZE]."""
    row, column = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    at = row * SIZE + column
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), input_precision=PRECISION))


@triton.jit
def rounded(function: tl.constexpr, bits_ptr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, N803
    """An arm's rounding of [SIZE] fp32 numbers, given and left as their bits."""
    at = bits_ptr + tl.arange(0, SIZE)
    tl.store(at, function(tl.load(at).to(tl.float32, bitcast=True)).to(tl.int32, bitcast=True))


def product(value: float, dtype: torch.dtype, precision: str = "tf32") -> float:
    """The first entry of (value times the identity) squared."""
    a = torch.eye(SIZE, dtype=dtype) * value
    c = torch.zeros(SIZE, SIZE)
    multiply[(1,)](a, a, c, SIZE, precision)
    return float(c[0, 0])


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (1 + KEPT, 1 + KEPT),
        (1 + LOST, 1.0),
        (1 + KEPT + LOST, 1 + KEPT),
        (-1 - LOST, -1.0),
        (0.0, 0.0),
        (float("-inf"), float("-inf")),
    ],
)
def test_truncation_is_towards_zero(value: float, kept: float) -> None:
    """The low 13 bits are cut, never rounded up, whatever the sign."""
    assert truncated(np.array([value], dtype=np.float32))[0] == kept


ROUNDED = {
    "below half": (0x3F800FFF, 0x3F800000),
    "half": (0x3F801000, 0x3F802000),
    "into the exponent": (0x3FFFFFFF, 0x40000000),
    "negative": (0xBF801000, 0xBF802000),
    "infinite": (0x7F800000, 0x7F800000),
    "a card's NaN": (0x7FFFFFFF, 0x7FFFFFFF),
    "a negative NaN": (0xFFFFFFFF, 0xFFFFFFFF),
}
"""fp32 bits, and what is left of them."""


def test_an_arm_rounds_weights_to_tf32() -> None:
    """To the nearest, halves away from zero; NaN stays NaN, also with the bits that only a card gives it."""
    function = vars(owner_of("_launch_packed_attn")).get("round_to_tf32")
    if function is None:  # only the arms whose weights are rounded
        return
    given, left = (np.array(bits, dtype=np.uint32) for bits in zip(*ROUNDED.values(), strict=True))
    bits = torch.zeros(SIZE, dtype=torch.int32)
    bits[: len(given)] = torch.from_numpy(given.view(np.int32))
    rounded[(1,)](function, bits, SIZE)
    found = bits[: len(given)].numpy().view(np.uint32)
    assert dict(zip(ROUNDED, map(hex, found), strict=True)) == dict(zip(ROUNDED, map(hex, left), strict=True))


def test_fp32_operands_are_truncated_in_the_emulation_only() -> None:
    """Inside it an operand loses the bit that tf32 lacks; before and after, the product is exact."""
    exact = (1 + LOST) ** 2
    assert product(1 + LOST, torch.float32) == pytest.approx(exact, rel=1e-7)
    with tf32_emulated():
        assert product(1 + LOST, torch.float32) == 1.0
        assert product(1 + KEPT, torch.float32) == pytest.approx((1 + KEPT) ** 2, rel=1e-7)
    assert product(1 + LOST, torch.float32) == pytest.approx(exact, rel=1e-7)


def test_other_dots_stay_exact() -> None:
    """Half-float operands and dots that ask for full precision keep every bit."""
    with tf32_emulated():
        assert product(1 + KEPT, torch.float16) == pytest.approx((1 + KEPT) ** 2, rel=1e-7)
        assert product(1 + LOST, torch.float32, "ieee") == pytest.approx((1 + LOST) ** 2, rel=1e-7)


def test_filled_cache_holds_what_a_write_would(bound: Any) -> None:
    """After the arm has read it, a filled cache is as near to its source as one that the arm wrote."""
    batch = Batch((2,), 30)  # two blocks
    bench = make_bench(NARROW, batch, own_write=False)
    run_leg(bench.layer, make_builder(config_for(NARROW), DEVICE), batch, bench.query(batch, 7), flag=True)
    error = worst_write_error(bench)
    assert error.steps <= bound("oracle", "cache-write", "value_steps")
    assert error.zero_point <= bound("oracle", "cache-write", "zero_point_steps")
    assert error.scale_relative <= bound("oracle", "cache-write", "scale_relative")
    assert error.transform_relative <= bound("oracle", "cache-write", "transform_relative")
