"""What the memory rules need of one boot; the engine fills it in, and published tables can too."""

from __future__ import annotations

import msgspec


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A number, or why there is none."""

    value: int | None
    resolution: int = 1
    """The last digit as printed, in the number's unit: the truth is within half of it."""
    reason: str | None = None
    """Why the value is None: which line of which log is missing."""


class BootFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One boot. Sizes are bytes."""

    name: str
    """How messages call it: its log, or the table it was published in."""
    arm: str
    lane: str
    environment: str
    """`native`, `container` or `wsl2`."""
    session: str
    """Boots are compared within one session only."""
    max_num_seqs: int
    problem: str | None
    """Why the boot is no boot: it failed, was cut, or served no request; None if it did."""
    lineage: str
    """`cold`, `warm`, `disabled`, `eager` or `unknown`."""
    ubatching: bool
    loaded: Measured
    """Scratch allocated at model load."""
    adopted_lines: int
    late_lines: int
    """Lines that report scratch allocated after the memory profile."""
    expected_adoptions: int
    """Builders that this boot constructs, those for the graph estimate included; 0 for as many as the
    reference boot reports allocations of."""
    model_load: Measured
    available_kv: Measured
    kv_tokens: Measured
    block_tokens: Measured
    free_after_boot: Measured
    resident: Measured
