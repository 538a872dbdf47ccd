"""Both kernels against the reference for other batches and other heads than the published cases have."""

from __future__ import annotations

from typing import Any

import pytest
from armlib.attention import run_leg
from armlib.builder import make_builder
from armlib.production import owner_of
from bench import errors_of, make_bench
from cases import CPU_END_TO_END_LIMIT, CPU_LAUNCHER_LIMIT, DEVICE, config_for
from shapes import SHAPES, Shape
from verdict import measure_leg, path_of


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_shape(shape: Shape, measure: Any, reached: Any) -> None:
    """Both legs take the kernel they should, for the reason they should, and agree with the reference."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    geometry, batch = shape.geometry, shape.batch
    bench = make_bench(geometry, batch, own_write=DEVICE != "cpu")
    builder = make_builder(config_for(geometry, max_num_seqs=len(shape.q_lens)), DEVICE)
    query = bench.query(batch, seed=7)
    legs = [run_leg(bench.layer, builder, batch, query, flag) for flag in (False, True)]
    usable = [measure_leg(measure, shape.name, flag, leg) for flag, leg in enumerate(legs)]
    measure(shape.name, "heads_q", geometry.heads_q, unit="heads")
    assert all(usable), "a leg did not reach the launcher exactly once"

    errors = [errors_of(leg, bench, batch, query) for leg in legs]
    for flag, error in enumerate(errors):
        measure(shape.name, f"launcher_ref_flag{flag}", error.launcher, unit="abs")
        measure(shape.name, f"end_to_end_ref_flag{flag}", error.end_to_end, unit="abs")
    if DEVICE == "cpu":
        assert max(error.launcher for error in errors) <= CPU_LAUNCHER_LIMIT
        assert max(error.end_to_end for error in errors) <= CPU_END_TO_END_LIMIT
    assert tuple(leg.reasons[0] for leg in legs) == shape.reasons
    assert tuple(path_of(leg) for leg in legs) == shape.paths
