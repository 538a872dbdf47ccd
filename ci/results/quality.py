"""What one arm said in a quality session; a file as soon as the arm's boot is done."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ci.results.throughput import Number

Count = Annotated[int, msgspec.Meta(ge=0)]


class TextScore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One part of a text."""

    log_likelihood: float | None
    """None if the score is no finite number."""
    tokens: int


class Talk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tool conversation."""

    completions: Count
    right: Count
    loops: Count
    """Completions that run in a loop."""
    truncated: Count
    """Completions that did not come to an end of their own, or say nothing."""


class ArmScores(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One arm."""

    key: str
    """Hash over everything that the session's arms have in common."""
    arm: str
    problems: tuple[str, ...]
    """Why nothing of this boot may be compared; empty if it may."""
    maths: dict[str, bool]
    """Whether each item was answered rightly."""
    silent: Count = 0
    """Items without text, none of them right: the model said nothing, or the request failed."""
    mean_tokens: Number
    """Of an answer."""
    texts: dict[str, list[TextScore]]
    """By split, its parts."""
    talks: dict[str, Talk]
