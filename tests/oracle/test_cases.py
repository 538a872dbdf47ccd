"""The published cases: which kernel each leg takes, why, and how far it is from the reference."""

from __future__ import annotations

from typing import Any

import pytest
from armlib.attention import Geometry
from armlib.production import owner_of
from bench import Bench, errors_of, make_bench, run_case, worst_write_error
from cases import CASES, CPU_END_TO_END_LIMIT, CPU_LAUNCHER_LIMIT, DEVICE, Case, short_cases
from conftest import cached
from verdict import measure_leg, path_of


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case, benches: dict[Geometry, Bench], measure: Any, reached: Any) -> None:
    """Both legs take the kernel they should, for the reason they should, and agree with the reference."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    bench = cached(benches, case.geometry) if case in short_cases() else make_bench(case.geometry, case.batch)
    query, legs = run_case(case, bench)
    usable = [measure_leg(measure, case.name, flag, leg) for flag, leg in enumerate(legs)]
    measure(case.name, "heads_q", bench.geometry.heads_q, unit="heads")
    assert all(usable), "a leg did not reach the launcher exactly once"

    errors = [errors_of(leg, bench, case.batch, query) for leg in legs]
    difference = float((legs[0].calls[0].output - legs[1].calls[0].output).abs().max())
    measure(case.name, "launcher_diff_2d_3d", difference, unit="abs")
    measure(case.name, "launcher_out_max", max(e.magnitude for e in errors), unit="abs")
    for flag, error in enumerate(errors):
        measure(case.name, f"launcher_ref_flag{flag}", error.launcher, unit="abs")
        measure(case.name, f"end_to_end_ref_flag{flag}", error.end_to_end, unit="abs")

    if DEVICE == "cpu":
        assert max(error.launcher for error in errors) <= CPU_LAUNCHER_LIMIT
        assert max(error.end_to_end for error in errors) <= CPU_END_TO_END_LIMIT
    assert tuple(leg.reasons[0] for leg in legs) == case.reasons
    assert tuple(path_of(leg) for leg in legs) == case.paths
    assert all(bool(leg.output.isfinite().all()) for leg in legs)
    if case.paths[1] == "2D":
        assert difference == 0


def test_cache_write(narrow: Bench, measure: Any) -> None:
    """The transform is right, and the cached bytes hold its result to half a quantisation step.

    The reference reads these bytes, so it bounds attention and dispatch; this bounds the write.
    """
    error = worst_write_error(narrow)
    measure("cache-write", "transform_relative", error.transform_relative, unit="1")
    measure("cache-write", "scale_relative", error.scale_relative, unit="1")
    measure("cache-write", "zero_point_steps", error.zero_point, unit="steps")
    measure("cache-write", "value_steps", error.steps, unit="steps")
