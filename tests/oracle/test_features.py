"""What the packed kernel does not do reaches the general split-KV kernel, and both kernels agree on it."""

from __future__ import annotations

from typing import Any

import pytest
from armlib.attention import run_leg
from armlib.builder import make_builder
from armlib.production import owner_of
from bench import errors_of, make_bench
from cases import DEVICE, config_for
from features import BATCH, FEATURES, Feature
from verdict import measure_leg, path_of


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_feature(feature: Feature, measure: Any, reached: Any, bound: Any) -> None:
    """Flag 1 takes 3D for the reason it should and equals flag 0; the feature changes the result."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    name, geometry = feature.name, feature.geometry
    bench = make_bench(geometry, BATCH, own_write=DEVICE != "cpu", features=feature.arguments(geometry))
    builder = make_builder(config_for(geometry), DEVICE)
    query = bench.query(BATCH, seed=7)
    legs = [run_leg(bench.layer, builder, BATCH, query, flag) for flag in (False, True)]
    usable = [
        measure_leg(measure, name, flag, leg, expected)
        for flag, (leg, expected) in enumerate(zip(legs, feature.reasons, strict=True))
    ]
    assert all(usable), "a leg did not reach the launcher exactly once"

    difference = float((legs[0].calls[0].output - legs[1].calls[0].output).abs().max())
    error = errors_of(legs[0], bench, BATCH, query)
    plain = error.launcher <= bound("oracle", "hist-[9]", "launcher_ref_flag0")
    measure(name, "launcher_diff_2d_3d", difference, unit="abs")
    measure(name, "launcher_out_max", error.magnitude, unit="abs")
    measure(name, "plain_attention", plain, unit="bool")
    assert tuple(leg.reasons[0] for leg in legs) == feature.reasons
    assert [path_of(leg) for leg in legs] == ["2D", "3D"]
    assert plain == feature.plain
