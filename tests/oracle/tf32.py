"""What a card does to fp32 operands of a dot, emulated under Triton's interpreter, which multiplies exactly.

A tf32 dot reads the 10 highest mantissa bits of an operand and ignores the other 13. Operands of any other
type keep all their bits on a card, and so they do here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from triton._C.libtriton import ir
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

DROPPED_BITS = 13
"""Mantissa bits of fp32 (23) that tf32 (10) lacks."""


def truncated(values: np.ndarray) -> np.ndarray:
    """The fp32 values that are left when a tf32 dot has dropped their low bits: towards zero, not rounded."""
    kept = np.uint32(0xFFFFFFFF ^ ((1 << DROPPED_BITS) - 1))
    return (values.view(np.uint32) & kept).view(np.float32)


def _operand(handle: Any) -> Any:
    if handle.data.dtype != np.float32:
        return handle
    return TensorHandle(truncated(np.ascontiguousarray(handle.data)), handle.dtype)


@contextmanager
def tf32_emulated() -> Iterator[None]:
    """Let every tf32 dot of the interpreter truncate its fp32 operands, as a card does."""
    original = InterpreterBuilder.create_dot

    def create_dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, *rest: Any) -> Any:
        if input_precision == ir.INPUT_PRECISION.TF32:
            a, b = _operand(a), _operand(b)
        return original(self, a, b, d, input_precision, *rest)

    InterpreterBuilder.create_dot = create_dot
    try:
        yield
    finally:
        InterpreterBuilder.create_dot = original
