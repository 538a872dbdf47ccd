"""A written cache and the legs that run over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

import torch
from armlib.attention import Batch, Geometry, Layer, Leg, make_layer, run_leg
from armlib.builder import make_builder
from cases import DEVICE, SHARED_BATCH, Case, config_for
from fill import fill
from inputs import ONCE, RUN, First, Times, draw, set_first
from reference import PLAIN, WriteError, attention, end_to_end, write_error
from vllm.v1.attention.ops import int4_per_token_head as kernels


@dataclass
class Bench:
    """One geometry: a layer whose cache is written once, and the source it was written from."""

    geometry: Geometry
    written: Batch
    layer: Layer
    key: torch.Tensor
    """[sum of written sequence lengths, KV heads, head size]."""
    value: torch.Tensor
    features: Mapping[str, Any]
    """Of the layer, as `make_layer` takes them."""

    def narrowed(self, batch: Batch) -> Layer:
        """The layer with as many sequences as `batch` has; longer cached sequences do no harm."""
        return replace(self.layer, block_table=self.layer.block_table[: len(batch.q_lens)])

    def query(self, batch: Batch, seed: int) -> torch.Tensor:
        """Standard-normal queries, [tokens, query heads, head size]."""
        shape = (batch.tokens, self.geometry.heads_q, self.geometry.head_size)
        return draw(shape, seed, self.geometry.dtype)


def make_bench(
    geometry: Geometry,
    batch: Batch = SHARED_BATCH,
    inputs: str = "normal",
    first: First | None = None,
    times: Times = ONCE,
    own_write: bool = True,
    features: Mapping[str, Any] = PLAIN,
) -> Bench:
    """A layer and what its cache was written from.

    Args:
        geometry: of the layer.
        batch: the sequences, their whole lengths.
        inputs: the kind of keys and values, a name of `inputs.INPUTS`.
        first: what the first key of every sequence is, if it is special.
        times: how much larger keys and values are than that kind.
        own_write: through the arm's own cache update; if not, its bytes are filled in.
        features: of the layer, as `make_layer` takes them.
    """
    layer = make_layer(config_for(geometry), geometry, batch, features=features)
    shape = (sum(batch.seq_lens), geometry.heads_kv, geometry.head_size)
    key, value = (draw(shape, seed, geometry.dtype, inputs) for seed in (1, 2))
    key, value = key * times.key, value * times.value
    value[torch.arange(len(value)) // RUN % 2 == 1] *= times.every_other
    if first is not None:
        set_first(key, value, batch.seq_lens, first)
    if own_write:
        layer.write(batch, key, value)
    else:
        fill(layer, batch, key, value)
    return Bench(geometry, batch, layer, key, value, features)


def worst_write_error(bench: Bench) -> WriteError:
    """The largest errors of the cached bytes over all sequences of the bench, keys and values."""
    lengths = bench.written.seq_lens
    errors = []
    for part, source in enumerate((bench.key, bench.value)):
        rotated = kernels.single_rht(source.float()).to(source.dtype)
        pairs = zip(source.split(lengths), rotated.split(lengths), strict=True)
        errors += [write_error(*pair, bench.layer, row, lengths[row], part) for row, pair in enumerate(pairs)]
    return WriteError(*(max(column) for column in zip(*map(astuple, errors), strict=True)))


@dataclass(frozen=True)
class Errors:
    """Largest absolute differences of one leg from the reference."""

    launcher: float
    """Before the inverse transform: query and output as the kernels see them."""
    end_to_end: float
    """After it, from the untransformed query."""
    magnitude: float
    """Largest absolute output at the launcher."""


def errors_of(leg: Leg, bench: Bench, batch: Batch, query: torch.Tensor) -> Errors:
    """Compare a leg with the reference at both layers."""
    layer = bench.narrowed(batch)
    call = leg.calls[0]
    scale = bench.geometry.softmax_scale / bench.geometry.head_size
    rows = sum(batch.q_lens)
    expected = attention(call.query, layer, batch, scale)
    whole = end_to_end(query, layer, batch)
    return Errors(
        launcher=float((call.output[:rows].double() - expected.double()).abs().max()),
        end_to_end=float((leg.output[:rows].double() - whole).abs().max()),
        magnitude=float(call.output.abs().max()),
    )


def relative_error(leg: Leg, bench: Bench, batch: Batch, rows: torch.Tensor | None = None) -> float:
    """Norm of the launcher's error over the norm of a float64 reference on the same cached bytes.

    Args:
        leg: what it did.
        bench: its cache.
        batch: the sequences.
        rows: bool [tokens, query heads], the rows that count; all, unless told.
    """
    (call,) = leg.calls
    scale = bench.geometry.softmax_scale / bench.geometry.head_size
    exact = attention(call.query, bench.layer, batch, scale, torch.float64, bench.features)
    rows = torch.ones(exact.shape[:2], dtype=torch.bool) if rows is None else rows
    rows = rows.to(exact.device)
    return float((call.output.double() - exact)[rows].norm() / exact[rows].norm())


def run_case(case: Case, bench: Bench, builder: Any = None, seed: int = 7) -> tuple[torch.Tensor, list[Leg]]:
    """Both legs of a case over one query: flag 0, then flag 1."""
    batch = case.batch
    builder = builder or make_builder(config_for(bench.geometry), DEVICE)
    query = bench.query(batch, seed)
    layer = bench.narrowed(batch)
    return query, [run_leg(layer, builder, batch, query, flag) for flag in (False, True)]
