"""Beyond sampled vectors: every class of batches of the grid, and configurations outside it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from armlib.builder import make_builder
from armlib.config import vllm_config
from armlib.production import owner_of, production
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mutations import MUTATIONS, Rows
from plan_access import LAUNCH_GRID_2D, planned_capacity
from vectors import Configuration, grid


def class_counts(configuration: Configuration, *capacities: int) -> list[int]:
    """Classes (sequences, longest entry, total) that the policy accepts, then those over each capacity."""
    point = (configuration.policy_seqs, configuration.max_query_len, configuration.max_num_batched_tokens)
    return [accepted_classes(*point), *(classes_over(*point, capacity) for capacity in capacities)]


def accepted_classes(policy_seqs: int, max_query_len: int, max_tokens: int) -> int:
    """All classes: none of them has room for less than no token."""
    return classes_over(policy_seqs, max_query_len, max_tokens, -1)


@functools.cache
def classes_over(policy_seqs: int, max_query_len: int, max_tokens: int, capacity: int) -> int:
    """Accepted classes whose total exceeds `capacity`.

    With `s` sequences, padded ones of zero length included, and a longest entry `q`, every total from `q`
    to `s * q` occurs. So the totals of a pair (s, q) form an interval, and counting it is exhaustive.
    """
    seqs = np.arange(1, policy_seqs + 1)[:, None]
    longest = np.arange(0, max_query_len + 1)[None, :]
    most = np.minimum(seqs * longest, max_tokens)
    return int(np.maximum(most - np.maximum(longest - 1, capacity), 0).sum())


def test_every_class_of_the_grid(measure: Any, reached: Any, mutation: Rows | None) -> None:
    """No class of accepted batches exceeds the plan, at any grid point; sequence-unit sizing is exceeded."""
    owner = owner_of("mq3d_scratch_plan")
    reached(owner, "mq3d_scratch_plan")
    names = ("classes", "plan", *MUTATIONS)
    totals = dict.fromkeys(names, 0)
    for configuration in grid():
        rows = [mutate(configuration) for mutate in MUTATIONS.values()]
        capacity = planned_capacity(owner, configuration)
        if mutation:
            capacity = mutation(configuration)
        for name, count in zip(names, class_counts(configuration, capacity, *rows), strict=True):
            totals[name] += count
    measure("classes", "classes", totals["classes"], unit="classes")
    measure("classes", "violations", totals["plan"], unit="classes")
    for name in MUTATIONS:
        measure.control(
            f"control-{name}-classes",
            red=totals[name] > 0,
            metric="violations",
            value=totals[name],
            unit="classes",
        )
    assert totals["plan"] == 0


@pytest.mark.parametrize("vector", [[3], [2, 2], [0, 5, 0], [1, 1, 1]])
def test_classes_cover_the_vectors(vector: list[int]) -> None:
    """Counting classes by intervals finds what counting totals one by one finds."""
    configuration = Configuration(6, 3, 4, 5)
    seqs, longest = len(vector), max(vector)
    for capacity in range(8):
        _, over = class_counts(configuration, capacity)
        by_hand = sum(
            1
            for s in range(1, configuration.policy_seqs + 1)
            for q in range(configuration.max_query_len + 1)
            for total in range(q, min(s * q, configuration.max_num_batched_tokens) + 1)
            if total > capacity
        )
        assert over == by_hand
        if sum(vector) > capacity:
            assert over > 0, (seqs, longest, capacity)


CONFIGS = st.fixed_dictionaries(
    {
        "tokens": st.integers(1, 1 << 18),
        "seqs": st.integers(1, 1024),
        "heads_kv": st.integers(1, LAUNCH_GRID_2D),
        "captures": st.none()
        | st.lists(st.integers(1, 512), min_size=1, max_size=40, unique=True).map(sorted),
        "lengths": st.lists(st.integers(0, 16), min_size=1, max_size=128),
    }
)


def test_beyond_the_grid(measure: Any, reached: Any) -> None:
    """Random configurations, with and without graphs, also fit; sizing in sequences does not."""
    owner = owner_of("mq3d_scratch_plan")
    reached(owner, "mq3d_scratch_plan")
    limit = production("MAX_QUERY_LEN_3D")
    tally = {"batches": 0, "plan": 0, "seq-rows": 0}

    @settings(
        max_examples=2000,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(CONFIGS)
    def draw(case: dict[str, Any]) -> None:
        config = configure(case)
        # The policy is the arm's own: what its builder hands to the launcher.
        threshold = make_builder(config, device="meta").seq_threshold_3D
        capacity = owner.mq3d_scratch_plan(config, HEADS_Q).capacity
        # As many of the drawn sequences as policy and scheduler admit, each cut to the arm's constant.
        lengths = [min(n, limit) for n in case["lengths"][: min(threshold, case["seqs"])]]
        while sum(lengths) > case["tokens"]:
            lengths.pop()
        tally["batches"] += bool(lengths)
        tally["plan"] += sum(lengths) > capacity
        tally["seq-rows"] += sum(lengths) > threshold

    draw()
    measure("beyond-grid", "violations", tally["plan"], unit="batches")
    measure.control("control-seq-rows-beyond", red=tally["seq-rows"] > 0)
    assert tally["batches"] > 1000, "the strategy hardly drew an accepted batch"
    assert tally["plan"] == 0


HEADS_Q = 8


def configure(case: dict[str, Any]) -> Any:
    """The drawn configuration, as the arm sees it."""
    return vllm_config(
        max_num_seqs=case["seqs"],
        max_num_batched_tokens=case["tokens"],
        num_heads_q=HEADS_Q,
        num_heads_kv=case["heads_kv"],
        head_size=64,
        capture_sizes=case["captures"],
    )
