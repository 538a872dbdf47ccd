"""What happened on GitHub, out of the event's JSON: only what the matrix has to know."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ci.errors import GateError

MAX_EVENT_BYTES = 32 * 1024 * 1024
"""GitHub cuts its events at 25 MB."""
NO_COMMIT = "0" * 40
"""GitHub's word for the commit before a branch began."""


class EventError(GateError):
    """The event is not one of those that the workflows listen to, or is not readable."""


class EventKind(enum.Enum):
    """Why a workflow runs."""

    PULL_REQUEST = "pull_request"
    PUSH = "push"
    SCHEDULE = "schedule"
    MANUAL = "manual"


KINDS = {
    "pull_request": EventKind.PULL_REQUEST,
    "push": EventKind.PUSH,
    "schedule": EventKind.SCHEDULE,
    "workflow_dispatch": EventKind.MANUAL,
}
"""By GitHub's names; anything else (``pull_request_target`` above all) is refused."""


@dataclass(frozen=True)
class Event:
    """One event."""

    kind: EventKind
    foreign: bool = False
    """True if the code is not from a branch of this repository, or if that cannot be told."""
    labels: frozenset[str] = frozenset()
    base: str | None = None
    """The commit to compare with, to know what changed."""
    head: str | None = None
    changed: tuple[str, ...] | None = None
    """Paths that the change touches; None if that is not known."""


def parse_event(name: str, data: bytes) -> Event:
    """Read an event.

    Args:
        name: as in ``GITHUB_EVENT_NAME``.
        data: the content of ``GITHUB_EVENT_PATH``.

    Raises:
        EventError: no workflow listens to it, or it is not readable.
    """
    kind = KINDS.get(name)
    if kind is None:
        raise EventError(
            f"no job is planned for the event {name!r}", remedy=f"one of: {', '.join(sorted(KINDS))}"
        )
    try:
        event = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EventError(f"the event cannot be read: {error}") from error
    if not isinstance(event, dict):
        raise EventError("the event is not a JSON object")
    if kind is EventKind.PULL_REQUEST:
        return _pull_request(event)
    if kind is EventKind.PUSH:
        return Event(kind, base=_commit(event, "before"), head=_commit(event, "after"))
    return Event(kind)


def _pull_request(event: Mapping[str, Any]) -> Event:
    pull = _table(event, "pull_request")
    source, own = _full_name(_table(pull, "head")), _text(_table(event, "repository"), "full_name")
    labels = pull.get("labels")
    found = (
        [_text(item, "name") for item in labels if isinstance(item, dict)] if isinstance(labels, list) else []
    )
    return Event(
        EventKind.PULL_REQUEST,
        # A fork that was deleted has no name: whatever cannot be told apart from a fork is one.
        foreign=source is None or own is None or source != own,
        labels=frozenset(name for name in found if name is not None),
        base=_commit(_table(pull, "base"), "sha"),
        head=_commit(_table(pull, "head"), "sha"),
    )


def _full_name(head: Mapping[str, Any]) -> str | None:
    return _text(_table(head, "repo"), "full_name")


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _text(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    return value if isinstance(value, str) and value else None


def _commit(data: Mapping[str, Any], key: str) -> str | None:
    """A commit's full name; None for anything else, so that no option or path can stand in its place."""
    text = _text(data, key)
    return text if text and text != NO_COMMIT and re.fullmatch(r"[0-9a-f]{40}", text) else None
