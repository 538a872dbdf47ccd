"""Typed records: one JSON line for what one case measured, with its unit.

A results file starts with one ``run`` line (who measured, where, under which
conditions); every further line is a ``record``.  A baseline file has the same
shape with a ``baseline`` head.  ``docs/records.schema.json`` is generated from
these types.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

SCHEMA_VERSION = 1

Scalar: TypeAlias = bool | int | float | str | None


class Subject(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a run is about; free to differ between two compared runs."""

    arm: str
    series_hash: str
    """Hash over the hunks of the arm's patches."""
    flags: dict[str, str] = {}
    """Flag settings the suite was run with, such as ``VLLM_INT4_MQ_3D``."""


class RunHead(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="run"
):
    """The first line of a results file: one execution of one suite on one lane."""

    schema: int
    run: str
    """Identifier of the run, equal to the one in the run folder's ``run.json``."""
    lane: str
    suite: str
    started: str
    """RFC 3339, UTC."""
    subject: Subject
    conditions: dict[str, Scalar]
    """What must match before two numbers may be compared (see the policy)."""
    provenance: dict[str, str] = {}
    """Hashes of the wheel, the patches and the surface files."""


class AbSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One number per boot of two arms, as measured in one session; its boots are the sample."""

    run: str
    """Identifier of the run that measured it: a confirmation is of another run."""
    arms: tuple[str, str]
    """Arm A, the reference, and arm B, the run's subject; equal names make it an A/A session.

    One arm under two flag values is written ``patched+VLLM_INT4_MQ_3D=0``.
    """
    order: str
    """The boots in the order in which they ran, such as ``ABBAABBA``."""
    values: tuple[float, ...]
    """One per boot, in the unit of the record."""


class Record(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="record",
    gc=False,  # no cycle can pass through one, and a million of them are not worth a look
):
    """One metric of one case."""

    case: str
    metric: str
    value: Scalar
    """None means that the value could not be read; ``reason`` then says why."""
    unit: str
    control: bool = False
    """True for a deliberate break; its metric ``red`` must be true."""
    printed: str | None = None
    """The digits as published, for a transcribed value: the comparison allows their rounding."""
    reason: str | None = None
    sessions: tuple[AbSession, ...] = ()
    """Of an A/B metric: the session, and after a first ``regressed`` the one that confirms it or not."""


class Acceptance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Who accepted a baseline value, when, and why."""

    date: str
    """ISO date, UTC."""
    by: str
    why: str


class Remeasure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The mark of a baseline that stands for nothing until the suite was measured anew."""

    vllm: str
    """The version that it has to be measured on."""
    why: str


class BaselineHead(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="baseline",
):
    """The first line of ``baselines/<lane>/<suite>.jsonl``."""

    schema: int
    lane: str
    suite: str
    subject: Subject
    conditions: dict[str, Scalar]
    provenance: dict[str, str] = {}
    remeasure: Remeasure | None = None
    """Set when the pin moves, gone with the next acceptance."""


class BaselineRecord(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="record",
    gc=False,  # no cycle can pass through one, and a million of them are not worth a look
):
    """One accepted metric."""

    case: str
    metric: str
    value: Scalar
    unit: str
    accepted: Acceptance
    control: bool = False
    printed: str | None = None
    reason: str | None = None
    source: str | None = None
    """Where a transcribed value was published; None means measured by this gate."""
    sessions: tuple[AbSession, ...] = ()


class AaSession(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="aa"
):
    """One line of ``baselines/<lane>/aa.jsonl``: an arm against itself, for the noise of the lane."""

    schema: int
    suite: str
    case: str
    metric: str
    unit: str
    session: AbSession
    conditions: dict[str, Scalar]
    accepted: Acceptance
