"""Builders that share one scratch set, and the widest batch that the capacity is made for."""

from __future__ import annotations

from typing import Any

from armlib.attention import Batch, run_leg
from armlib.builder import make_builder, scratch_rows
from armlib.production import owner_of
from bench import Bench, errors_of, make_bench
from cases import DEVICE, ELIGIBLE, HISTORY, NARROW, config_for
from verdict import measure_leg, path_of

WIDE = Batch((8,) * 8, HISTORY)


def test_interleaved_builders(narrow: Bench, measure: Any, reached: Any) -> None:
    """Calls of two builders in turn give what each gives alone: the scratch carries nothing between calls."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    config = config_for(narrow.geometry)
    batches = [Batch((4,), HISTORY), Batch((1, 3), HISTORY)]
    queries = [narrow.query(batch, seed=20 + n) for n, batch in enumerate(batches)]

    def leg(builder: Any, n: int) -> Any:
        return run_leg(narrow.narrowed(batches[n]), builder, batches[n], queries[n], flag=True)

    alone = [leg(make_builder(config, DEVICE), n).output for n in (0, 1)]
    builders = [make_builder(config, DEVICE) for _ in (0, 1)]
    shared = scratch_rows(builders[0]) == scratch_rows(builders[1])
    turns = [(n, leg(builders[n], n)) for n in (0, 1, 0, 1)]
    equal = all(bool((result.output == alone[n]).all()) for n, result in turns)
    measure("interleaved-builders", "shared", shared, unit="bool")
    measure("interleaved-builders", "equal", equal, unit="bool")
    measure("interleaved-builders", "paths", " ".join(path_of(result) for _, result in turns), unit="name")
    # The comparison is able to fail: another query gives another output.
    other = narrow.query(batches[0], seed=30)
    differs = run_leg(narrow.narrowed(batches[0]), builders[0], batches[0], other, flag=True).output
    measure.control("control-other-query", red=not bool((differs == alone[0]).all()))
    assert equal


def test_eight_sequences(measure: Any, reached: Any) -> None:
    """Eight sequences of eight tokens fill half of a capacity of 128 and take the split-KV kernel."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    bench = make_bench(NARROW, WIDE)
    builder = make_builder(config_for(NARROW, max_num_seqs=8), DEVICE)
    capacity = owner_of("mq3d_scratch_plan").mq3d_scratch_plan(
        config_for(NARROW, max_num_seqs=8), NARROW.heads_q
    )
    query = bench.query(WIDE, seed=7)
    leg = run_leg(bench.layer, builder, WIDE, query, flag=True)
    measure("eight-sequences", "capacity", capacity.capacity, unit="tokens")
    assert measure_leg(measure, "eight-sequences", 1, leg)
    measure("eight-sequences", "launcher_ref_flag1", errors_of(leg, bench, WIDE, query).launcher, unit="abs")
    assert leg.reasons == [ELIGIBLE]
    assert capacity.capacity == 128
