"""The scratch pool of the arm: who allocates, who adopts, and who must not share.

Every test uses a number of query heads of its own, so that a pool which outlives a test cannot help or hurt
the next one.
"""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from armlib.builder import make_builder, scratch_rows
from armlib.config import vllm_config
from armlib.production import owner_of, production

HEAD_SIZE = 16
CPU = torch.device("cpu")
LOAD, BUILDER = "model load", "metadata builder"


def config(heads_q: int, max_num_seqs: int = 2, ubatching: bool = False) -> Any:
    """A small eager configuration; capacity is 16 query tokens per sequence."""
    return vllm_config(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=8192,
        num_heads_q=heads_q,
        num_heads_kv=4,
        head_size=HEAD_SIZE,
        ubatching=ubatching,
    )


def plan(heads_q: int, max_num_seqs: int = 2) -> Any:
    """The arm's plan for `heads_q` query heads and up to `max_num_seqs` sequences."""
    return production("mq3d_scratch_plan")(config(heads_q, max_num_seqs), heads_q)


def buffers(held: Any, depth: int = 3) -> dict[int, int]:
    """Data pointer -> rows of every tensor reachable from what the arm handed out."""
    if isinstance(held, torch.Tensor):
        return {held.data_ptr(): held.shape[0]}
    if depth == 0:
        return {}
    parts = held.values() if isinstance(held, dict) else held if isinstance(held, list | tuple) else []
    if hasattr(held, "__dict__"):
        parts = vars(held).values()
    found: dict[int, int] = {}
    for part in parts:
        found |= buffers(part, depth - 1)
    return found


def same(first: Any, second: Any) -> bool:
    """Whether two holders hold the very same three buffers."""
    ours, theirs = buffers(first), buffers(second)
    return len(ours) == 3 and ours == theirs


def apart(*holders: Any) -> bool:
    """Whether no two holders share a buffer."""
    pointers = [pointer for held in holders for pointer in buffers(held)]
    return len(pointers) == 3 * len(holders) == len(set(pointers))


def test_share(measure: Any, reached: Any) -> None:
    """Layers of one geometry allocate once, and builders of that geometry adopt that set."""
    owner = owner_of("mq3d_scratch_acquire")
    acquired = reached(owner, "mq3d_scratch_acquire")
    acquire = owner.mq3d_scratch_acquire
    first, second = (acquire(plan(3), CPU, LOAD) for _ in range(2))
    builders = [acquire(plan(3), CPU, BUILDER) for _ in range(2)]
    holds = same(first, second) and all(same(first, held) for held in builders)
    measure("share", "holds", holds, unit="bool")
    measure("share", "acquisitions", acquired.calls, unit="calls")
    assert holds


def test_adopt_smaller(measure: Any) -> None:
    """A builder whose plan is smaller adopts the larger set and declares its capacity."""
    acquire = production("mq3d_scratch_acquire")
    loaded = acquire(plan(5, max_num_seqs=2), CPU, LOAD)
    builder = make_builder(config(5, max_num_seqs=1))
    adopted = scratch_rows(builder)
    rows = min(adopted.values())
    holds = adopted == buffers(loaded)
    measure("adopt-smaller", "holds", holds, unit="bool")
    measure("adopt-smaller", "rows", rows, unit="rows")
    assert holds
    assert rows == 32


def test_replace_larger(measure: Any) -> None:
    """A builder whose plan is larger allocates anew, and later callers get the larger set."""
    acquire = production("mq3d_scratch_acquire")
    loaded = acquire(plan(6, max_num_seqs=1), CPU, LOAD)
    larger = acquire(plan(6, max_num_seqs=2), CPU, BUILDER)
    later = [acquire(plan(6, max_num_seqs=seqs), CPU, BUILDER) for seqs in (1, 2)]
    holds = apart(loaded, larger) and all(same(larger, held) for held in later)
    measure("replace-larger", "holds", holds, unit="bool")
    assert holds
    assert set(buffers(larger).values()) == {32}


def test_exclusive(measure: Any) -> None:
    """An exclusive builder takes a set that no other holds; without the guard the second one shares."""
    acquire = production("mq3d_scratch_acquire")
    loaded = acquire(plan(7), CPU, LOAD)
    first, second = (acquire(plan(7), CPU, BUILDER, exclusive=True) for _ in range(2))
    holds = same(loaded, first) and apart(first, second)
    measure("exclusive", "holds", holds, unit="bool")

    unguarded_load = acquire(plan(9), CPU, LOAD)
    unguarded = [acquire(plan(9), CPU, BUILDER, exclusive=False) for _ in range(2)]
    red = same(unguarded_load, unguarded[0]) and not apart(*unguarded)
    measure.control("control-guard-off", red=red)
    assert holds
    assert red


def test_exclusive_claim_ends(measure: Any) -> None:
    """When the exclusive holder is gone its set can be taken again: profiling-time builders come and go."""
    acquire = production("mq3d_scratch_acquire")
    loaded = acquire(plan(10), CPU, LOAD)
    profiling = acquire(plan(10), CPU, BUILDER, exclusive=True)
    del profiling
    gc.collect()
    final = acquire(plan(10), CPU, BUILDER, exclusive=True)
    measure("exclusive-released", "holds", same(loaded, final), unit="bool")
    assert same(loaded, final)


def test_distinct_geometry(measure: Any) -> None:
    """Another number of query heads is another set."""
    acquire = production("mq3d_scratch_acquire")
    holds = apart(acquire(plan(11), CPU, LOAD), acquire(plan(12), CPU, LOAD))
    measure("distinct-geometry", "holds", holds, unit="bool")
    assert holds


def test_builders_under_ubatching(measure: Any) -> None:
    """The arm's builder asks for exclusive sets exactly when ubatching is on."""
    acquire = production("mq3d_scratch_acquire")
    loaded = [acquire(plan(heads), CPU, LOAD) for heads in (13, 14)]
    plain = [make_builder(config(13)) for _ in range(2)]
    ubatched = [make_builder(config(14, ubatching=True)) for _ in range(2)]
    shared = scratch_rows(plain[0]) == scratch_rows(plain[1])
    separate = not scratch_rows(ubatched[0]).keys() & scratch_rows(ubatched[1]).keys()
    measure("ubatching", "shared_without", shared, unit="bool")
    measure("ubatching", "separate_with", separate, unit="bool")
    assert loaded
    assert shared
    assert separate


@contextmanager
def boot_lines() -> Iterator[list[str]]:
    """Messages that the arm's backend logs."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("vllm.v1.attention.backends.triton_attn")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def test_boot_lines(measure: Any) -> None:
    """Each line says what happened and carries a plan that can be recomputed from its own inputs."""
    acquire = production("mq3d_scratch_acquire")
    with boot_lines() as lines:
        loaded = acquire(plan(15), CPU, LOAD)
        adopted = make_builder(config(15))
        late = make_builder(config(17))
    words = ["allocated at model load (inside the memory profile)", "adopted", "AFTER the memory profile"]
    said = len(lines) == 3 and all(word in line for word, line in zip(words, lines, strict=True))
    plans = [json.loads(line[line.index("{") :]) for line in lines]
    for printed in plans:
        seqs = min(printed["max_num_seqs"], printed["seq_threshold_3D"])
        limit = min(printed["max_num_batched_tokens"], seqs * printed["max_query_len_3d"])
        row = printed["num_heads_q"] * printed["num_segments"] * (printed["headdim_padded"] + 2) * 4
        assert printed["capacity"] == limit
        assert printed["row_bytes"] == row
        assert printed["total_bytes"] == limit * row
    measure("boot-lines", "holds", said, unit="bool")
    assert loaded
    assert adopted
    assert late
    assert said, lines
