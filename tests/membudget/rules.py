"""What must hold of an accounted boot; each broken rule is one sentence with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from accounting import BootAccount
from boot import AFTER, LOAD, SERVING
from model import TARGET

from ci.engine.scratchlines import recompute

ADOPTED = "adopted by the metadata builder"
LATE = "AFTER the memory profile"

Rule = Callable[[BootAccount], Iterator[str]]


def bytes_at_load(account: BootAccount) -> Iterator[str]:
    """The plan's bytes, one set per geometry, are allocated at model load and alive in the profile."""
    planned = sum(plan["total_bytes"] for plan in account.plans.values())
    if not account.plans:
        yield "the arm plans no scratch"
    if not account.bytes_in(LOAD) == account.counted_bytes == planned:
        yield (
            f"{account.bytes_in(LOAD)} B allocated at model load, {account.counted_bytes} B counted by the "
            f"memory profile, {planned} B planned"
        )


def nothing_after(account: BootAccount) -> Iterator[str]:
    """No builder allocates: neither those for the graph estimate nor those that serve."""
    for phase in AFTER:
        if account.bytes_in(phase):
            yield f"{account.bytes_in(phase)} B in {account.sets_in(phase)} sets allocated by {phase}"


def every_builder_adopts(account: BootAccount) -> Iterator[str]:
    """Each serving builder says that it adopted, and none says that it came late."""
    adopted = len(account.lines_with(ADOPTED, SERVING))
    if adopted != len(account.builders):
        yield f"{adopted} of {len(account.builders)} builders say that they adopted"
    if late := account.lines_with(LATE):
        yield f"{len(late)} lines say {LATE}"


def rows_carry_the_capacity(account: BootAccount) -> Iterator[str]:
    """A builder holds at least the planned rows, and declares what it holds."""
    for builder in account.builders:
        planned = account.plans.get(builder.heads_q, {}).get("capacity")
        if planned is None or builder.rows < planned or builder.declared != builder.rows:
            yield f"{builder.heads_q} heads: {builder.rows} rows, declared {builder.declared}, plan {planned}"


def target_geometry(account: BootAccount) -> Iterator[str]:
    """Every plan printed has the target's head size and KV heads, also the drafter's."""
    expected = (TARGET.head_size, TARGET.heads_kv)
    for line in account.lines:
        if line.plan and (found := (line.plan["headdim_padded"], line.plan["num_heads_kv"])) != expected:
            yield f"{line.phase}: {line.plan['num_heads_q']} heads planned with head size, KV heads {found}"


def plans_follow(account: BootAccount) -> Iterator[str]:
    """Every plan printed follows from its inputs, and its bytes hold the partials that it promises."""
    for line in account.lines:
        if line.plan and (problem := recompute(line.plan)):
            yield f"{line.phase}: {problem}"


def exclusive_under_ubatching(account: BootAccount) -> Iterator[str]:
    """With builders on streams of their own, no two hold one set."""
    shared = len(account.builders) - len({builder.scratch for builder in account.builders})
    if account.ubatching and shared:
        yield f"ubatching is on and {shared} builders hold a set that another one holds"


RULES: tuple[Rule, ...] = (
    bytes_at_load,
    nothing_after,
    every_builder_adopts,
    rows_carry_the_capacity,
    target_geometry,
    plans_follow,
    exclusive_under_ubatching,
)


def violations(account: BootAccount) -> list[str]:
    """Every rule that the boot breaks."""
    return [found for rule in RULES for found in rule(account)]
