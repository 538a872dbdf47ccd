"""Query tokens that belong to no sequence: a captured batch size leaves them at the end of a batch."""

from __future__ import annotations

from typing import Any

import torch
from armlib.attention import Batch, run_leg
from armlib.builder import make_builder
from armlib.production import owner_of
from bench import errors_of, make_bench
from cases import DEVICE, ELIGIBLE, FLAG_OFF, config_for
from shapes import HERE, UNALIGNED
from verdict import measure_leg, path_of

CASE = "padded-[4,3]"
PADDED = Batch((4, 3), UNALIGNED, padding=5)
ROWS = sum(PADDED.q_lens)


def padding_of(output: torch.Tensor) -> str:
    """What the rows of padding hold after a call over output and scratch of NaN: `nan`, `zeros`, `other`."""
    rows = output[ROWS:]
    if bool(rows.isnan().all()):
        return "nan"
    return "zeros" if bool((rows == 0).all()) else "other"


def test_padding(measure: Any, reached: Any) -> None:
    """2D leaves padding alone, 3D writes zeros whatever the scratch held; the tokens before it are right."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    bench = make_bench(HERE, PADDED, own_write=DEVICE != "cpu")
    builder = make_builder(config_for(HERE), DEVICE)
    query = bench.query(PADDED, seed=7)
    legs = [run_leg(bench.layer, builder, PADDED, query, flag) for flag in (False, True)]
    usable = [measure_leg(measure, CASE, flag, leg, tokens=ROWS) for flag, leg in enumerate(legs)]
    assert all(usable), "a leg did not reach the launcher exactly once"

    for flag, leg in enumerate(legs):
        error = errors_of(leg, bench, PADDED, query)
        measure(CASE, f"launcher_ref_flag{flag}", error.launcher, unit="abs")
        measure(CASE, f"padding_flag{flag}", padding_of(leg.calls[0].output), unit="name")
    assert [leg.reasons[0] for leg in legs] == [FLAG_OFF, ELIGIBLE]
    assert [path_of(leg) for leg in legs] == ["2D", "3D"]
