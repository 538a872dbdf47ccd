"""Each kind of keys and values is what it is called, and the ratio to stock has its floor."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from inputs import (
    INPUTS,
    OFFSET,
    OUTLIER_FACTORS,
    SINK,
    draw,
    set_first,
    toward_first,
)
from law import BFLOAT16, DECODE_CASE, FLAWED_ARM, INPUT_CASES, flawed_arm, ratio_to_stock

SHAPE = (4096, 2, 64)


def drawn(inputs: str) -> torch.Tensor:
    """Values of one kind, in float64."""
    return draw(SHAPE, 3, torch.float32, inputs).double()


def test_every_kind_is_measured() -> None:
    """The cases are the kinds, each once."""
    assert sorted(case.inputs for case in INPUT_CASES if case.first is None) == sorted(INPUTS)
    assert [case.inputs for case in INPUT_CASES if case.first is not None] == ["normal"]


def test_heavy_tails() -> None:
    """Many standard deviations out, where normal values never are, but around the same centre."""
    heavy, normal = drawn("heavy-tailed"), drawn("normal")
    assert float(normal.abs().max()) < 6
    assert float(heavy.abs().max()) > 20
    assert float(heavy.median()) == pytest.approx(0, abs=0.02)


def test_outlier_channels() -> None:
    """The first channels of every head are larger by their factors, the others as they were."""
    spread = drawn("outlier-channels").std(dim=0)
    count = len(OUTLIER_FACTORS)
    assert spread[:, :count].flatten().tolist() == pytest.approx([*OUTLIER_FACTORS] * 2, rel=0.1)
    assert spread[:, count:].flatten().tolist() == pytest.approx([1.0] * 2 * (64 - count), rel=0.1)


def test_offset() -> None:
    """Around its constant, with the variance of normal values."""
    values = drawn("offset")
    assert float(values.mean()) == pytest.approx(OFFSET, rel=0.01)
    assert float(values.std()) == pytest.approx(1, rel=0.01)


def test_sinks() -> None:
    """The first key of a sequence is ahead by the lead for all queries, and its value is next to nothing."""
    key, value = drawn("normal"), draw(SHAPE, 4, torch.float32).double()
    query = toward_first(draw(SHAPE, 5, torch.float32).double()[:50])
    set_first(key, value, [1000, 3096], SINK)
    for first, last in ((0, 1000), (1000, 4096)):
        scores = torch.einsum("qhd,khd->qhk", query, key[first:last]) / SHAPE[-1] ** 0.5
        assert scores[:, :, 0].flatten().tolist() == pytest.approx([SINK.lead] * 100, rel=0.01)
        assert float(scores[:, :, 1:].mean()) == pytest.approx(0, abs=0.05)
        weight = torch.softmax(scores, dim=-1)
        terms = [
            torch.einsum("qhk,khd->qhd", weight[:, :, part], value[first:last][part])
            for part in (slice(0, 1), slice(1, None))
        ]
        assert float(terms[0].norm()) < 0.2 * float(terms[1].norm())


@pytest.mark.parametrize(
    ("error", "stock", "ratio"),
    [
        (0.02, 0.01, 2.0),
        (0.01, 0.02, 0.5),
        (2.0**-10, 2.0**-11, 2.0),
        (2.0**-11, 2.0**-14, 1.0),
        (2.0**-9, 0.0, 4.0),
        (0.02, math.nan, 0.0),
    ],
)
def test_ratio_has_a_floor(error: float, stock: float, ratio: float) -> None:
    """Below the output's rounding stock counts as that rounding, above it as it is; NaN is the worst."""
    assert ratio_to_stock(DECODE_CASE, error, stock) == pytest.approx(ratio)


def test_the_floor_is_the_outputs_own() -> None:
    """A bfloat16 output rounds eight times as far."""
    assert ratio_to_stock(replace(DECODE_CASE, geometry=BFLOAT16), 2.0**-8, 2.0**-9) == 1.0


@pytest.mark.parametrize(
    ("under_test", "roots", "expected"),
    [
        ("packed", '{"stock": "s", "patched": "p", "packed": "k"}', FLAWED_ARM),
        ("patched", '{"stock": "s", "patched": "p"}', "stock"),
        ("mq3d", '{"stock": "s", "mq3d": "m"}', "stock"),
    ],
)
def test_flawed_arm(under_test: str, roots: str, expected: str, monkeypatch: Any) -> None:
    """`patched` breaks the law for the arms after it; for the others stock does."""
    monkeypatch.setenv("FORKPROOF_ARM", under_test)
    monkeypatch.setenv("FORKPROOF_ARM_ROOTS", roots)
    assert flawed_arm() == expected
