"""Capture sizes that change after the load, ubatching, and the breaks that the rules must see."""

from __future__ import annotations

from typing import Any

from boot import LOAD, SERVING, boot
from breaks import builders_allocate, layer_geometry, never_exclusive, pool_disabled
from model import Setting
from rules import ADOPTED, LATE, violations

UP_TO_16 = (1, 2, 4, 8, 16)
UP_TO_32 = (*UP_TO_16, 24, 32)
DRAFTER_SET_BYTES = 64 * 528_384
"""32.25 MiB: 64 rows of 32 heads."""


def test_smaller_after_load_adopts(measure: Any) -> None:
    """A builder that plans fewer rows than were loaded adopts the larger set and declares its capacity."""
    account = boot(Setting(64, load_captures=UP_TO_32, builder_captures=UP_TO_16))
    planned = {line.plan["capacity"] for line in account.lines if line.phase == SERVING and line.plan}
    declared = {builder.declared for builder in account.builders}
    measure("re-rounded-smaller", "bytes_after", account.bytes_in(SERVING), unit="bytes")
    measure("re-rounded-smaller", "late_lines", len(account.lines_with(LATE)), unit="lines")
    measure("re-rounded-smaller", "planned", *planned, unit="tokens")
    measure("re-rounded-smaller", "declared", *declared, unit="tokens")
    assert (planned, declared) == ({256}, {512})
    assert not violations(account)


def test_larger_after_load_warns(measure: Any) -> None:
    """A builder that plans more rows than were loaded allocates, and says so as a warning."""
    account = boot(Setting(64, load_captures=UP_TO_16, builder_captures=UP_TO_32))
    late = account.lines_with(LATE, SERVING)
    measure("re-rounded-larger", "bytes_after", account.bytes_in(SERVING), unit="bytes")
    measure("re-rounded-larger", "late_lines", len(late), unit="lines")
    measure("re-rounded-larger", "adopted", len(account.lines_with(ADOPTED, SERVING)), unit="lines")
    assert [line.level for line in late] == ["WARNING", "WARNING"]
    assert sum(line.plan["total_bytes"] for line in late if line.plan) == account.bytes_in(SERVING)
    assert violations(account)


def test_ubatching_takes_sets_apart(measure: Any) -> None:
    """Builders on streams of their own hold a set each; those beyond the loaded two are new and said."""
    account = boot(Setting(4, ubatching=True))
    sets = {builder.scratch for builder in account.builders}
    measure("ubatching", "builders", len(account.builders), unit="builders")
    measure("ubatching", "sets", len(sets), unit="sets")
    measure("ubatching", "late_lines", len(account.lines_with(LATE, SERVING)), unit="lines")
    assert len(account.builders) == len(sets) == 8
    assert len(account.lines_with(LATE, SERVING)) == account.sets_in(SERVING) == 6

    shared = boot(Setting(4, ubatching=True), never_exclusive)
    red = any("ubatching is on" in sentence for sentence in violations(shared))
    measure.control("control-ubatching-not-exclusive", red=red)
    assert red


def test_layer_geometry_is_seen(measure: Any) -> None:
    """A pool keyed on the layer's own geometry leaves exactly the drafter's set outside the budget."""
    account = boot(Setting(4), layer_geometry)
    outside = account.bytes_in(SERVING)
    red = bool(violations(account))
    measure.control("control-layer-geometry", red=red, metric="bytes_after", value=outside, unit="bytes")
    assert red
    assert outside == DRAFTER_SET_BYTES
    assert {line.plan["num_heads_q"] for line in account.lines_with(LATE) if line.plan} == {32}


def test_builder_allocating_again_is_seen(measure: Any) -> None:
    """A builder that allocates behind a line that says adopted is caught by the bytes, not by the line."""
    account = boot(Setting(4), builders_allocate)
    red = any("allocated by builders" in sentence for sentence in violations(account))
    outside = account.bytes_in(SERVING)
    measure.control("control-builder-allocates", red=red, metric="bytes_after", value=outside, unit="bytes")
    assert red
    assert not account.lines_with(LATE)
    assert outside == 2 * account.bytes_in(LOAD)


def test_disabled_pool_is_seen(measure: Any) -> None:
    """Without the pool the four sets of the earlier sizing are back, after the profile."""
    account = boot(Setting(4), pool_disabled)
    red = bool(violations(account))
    outside = account.bytes_in(SERVING)
    measure.control("control-pool-disabled", red=red, metric="bytes_after", value=outside, unit="bytes")
    assert red
    assert account.sets_in(SERVING) == 4


def test_plan_with_too_many_partials_is_seen(measure: Any) -> None:
    """One partial more than the bytes hold, in a single printed plan, breaks a rule."""
    account = boot(Setting(4))
    line = next(line for line in account.lines if line.plan)
    assert line.plan is not None
    room = line.plan["total_bytes"] // (line.plan["num_heads_q"] * (line.plan["headdim_padded"] * 2 + 4))
    line.plan["packed_partials"] = room
    assert not violations(account)
    line.plan["packed_partials"] = room + 1
    red = any("partials" in sentence for sentence in violations(account))
    measure.control("control-too-many-partials", red=red)
    assert red
