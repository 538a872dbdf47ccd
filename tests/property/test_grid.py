"""Every accepted batch of the published grid fits the arm's plan, and sequence-unit sizing does not."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from armlib.production import owner_of
from mutations import MUTATIONS, Rows
from plan_access import check_cap_is_heard, planned_capacity
from vectors import RANDOM_VECTORS, SEED, corner_vectors, grid, vectors


def test_published_vectors(measure: Any, reached: Any, mutation: Rows | None) -> None:
    """The counts of the published property test come out exactly; its two mutations turn it red."""
    owner = owner_of("mq3d_scratch_plan")
    check_cap_is_heard(owner.mq3d_scratch_plan)
    plan_calls = reached(owner, "mq3d_scratch_plan")
    rng = random.Random(SEED)
    count: Counter[str] = Counter()
    for configuration in grid():
        rows = {name: mutate(configuration) for name, mutate in MUTATIONS.items()}
        rows["plan"] = planned_capacity(owner, configuration)
        if mutation:
            rows["plan"] = mutation(configuration)
        for vector in vectors(configuration, rng):
            count["vectors"] += 1
            if not configuration.accepts(vector):
                continue
            count["eligible"] += 1
            tokens = sum(vector)
            for name, capacity in rows.items():
                count[name] += tokens > capacity
        count["configurations"] += 1

    for metric in ("configurations", "vectors", "eligible"):
        measure("grid", metric, count[metric], unit=metric if metric != "eligible" else "vectors")
    measure("grid", "violations", count["plan"], unit="vectors")
    measure("grid", "plan_calls", plan_calls.calls, unit="calls")
    for name in MUTATIONS:
        measure.control(
            f"control-{name}", red=count[name] > 0, metric="violations", value=count[name], unit="vectors"
        )
    assert count["plan"] == 0, f"{count['plan']} of {count['eligible']} accepted batches do not fit the plan"


def test_draws_are_those_of_randint() -> None:
    """The written-out draws are the published ones: the same vectors, and the same generator afterwards."""
    ours, theirs = random.Random(SEED), random.Random(SEED)
    for configuration in grid()[::97]:
        seqs, cap = configuration.policy_seqs, configuration.max_query_len
        drawn = list(vectors(configuration, ours))[len(corner_vectors(seqs, cap)) :]
        published = []
        for _ in range(RANDOM_VECTORS):
            length = theirs.randint(1, seqs + 2)
            published.append([theirs.randint(1, cap + 2) for _ in range(length)])
        assert drawn == published
    assert ours.getstate() == theirs.getstate()
