"""What one boot of a throughput session measured; each boot is a file as soon as it is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec


class Number(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A number, or why there is none."""

    value: float | None
    reason: str | None = None


class PointMeasure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One prompt, timed in one boot."""

    point: str
    prompt_tokens: int
    completion_tokens: int
    chunks: int
    """Pieces of text as they came; several steps may share one."""
    steps: Number
    """Decode steps: engine steps that gave tokens, less the one that ended the prefill."""
    drafts: Number
    """Steps with a draft; n-gram drafting has steps without one."""
    decode_tok_s: Number
    """Tokens over the time from the first text to the last."""
    step_ms: Number
    """Milliseconds per decode step, over the same time."""
    tokens_per_step: Number
    isolated_tok_s: Number
    """(N - 1) tokens over the time of N tokens less that of one token, both of the same prompt."""
    isolated_step_ms: Number
    prefill_ms: Number
    """To the first token of the first request with this prompt."""
    cached_tokens: Number
    """Prompt tokens that came from the prefix cache in the timed request."""
    round_ms: tuple[float, ...]
    """Decode alone in each round, in order: how much of the spread between boots is within one."""
    prompt_sha256: str
    """Of its tokens, which all boots must have been asked."""
    text_sha256: str


class ArmSeen(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which arm a boot was, as the boot itself shows it."""

    series_hash: str
    """From the manifest in the folder that the engine imports from."""
    root_first: bool
    """Whether every engine process imports vLLM from that folder before any other."""
    flags: dict[str, str | None]
    """Values in the engine processes' own environment, of the flags of both arms; None where no process has
    one, and where they differ what each has."""
    processes: int
    scratch: str
    """The plan lines of the boot, counted: `2 loaded, 4 adopted, 0 late`."""


class BootMeasure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One boot of a session."""

    arm: str
    """With its flags, as the session names it."""
    letter: Literal["A", "B"]
    place: int
    """From 0, in the order in which the timed boots run; -1 for an untimed one."""
    started: str
    seconds: float
    problems: tuple[str, ...]
    """Why nothing of this boot may be compared; empty if it may."""
    seen: ArmSeen | None
    pool_tokens: Number
    lineage: str
    modules_loaded: int
    """Compiled modules that came out of a cache, by the boot's log."""
    modules_compiled: int
    machine: dict[str, bool | int | float | str | None]
    """State of the GPU and load of the machine while the server was up."""
    points: tuple[PointMeasure, ...]
    session: str = ""
    """The run of the session that it belongs to; empty in files from before it was written down."""

    def point(self, name: str) -> PointMeasure | None:
        """The measurement of one prompt."""
        return next((one for one in self.points if one.point == name), None)


class SessionHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a session is; written when it begins, never changed."""

    schema: int
    run: str
    """Names the session in its records, also after it was interrupted and went on."""
    key: str
    """Hash over all that its boots have in common: profile, arms, machine."""
    profile: str
    arms: tuple[str, str]
    points: tuple[str, ...]
    judge: str
    pairs: int
    """The largest number of pairs of boots."""
    started: str
    conditions: dict[str, bool | int | float | str | None]
    models: tuple[str, ...] = ()
    """Model and drafter, where the caller names them; a generated model is part of the profile."""


KeptSession = tuple[SessionHead, Sequence[BootMeasure]]
"""A session and its boots, in order."""
SCHEMA_VERSION = 1
