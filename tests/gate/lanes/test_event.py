from __future__ import annotations

import json
from typing import Any

import pytest

from ci.lanes.event import EventError, EventKind, parse_event

SHA = "a1" * 20


def pull(head: Any = "us/it", **fields: Any) -> bytes:
    """A pull_request event whose code comes from the repository ``head``."""
    repo = None if head is None else {"full_name": head}
    inner = {
        "head": {"sha": SHA, "repo": repo},
        "base": {"sha": "b2" * 20},
        "labels": [{"name": "gpu"}],
        **fields,
    }
    return json.dumps({"pull_request": inner, "repository": {"full_name": "us/it"}}).encode()


def test_a_branch_of_our_own() -> None:
    """Labels and both commits are read."""
    event = parse_event("pull_request", pull())
    assert (event.kind, event.foreign, event.labels) == (EventKind.PULL_REQUEST, False, {"gpu"})
    assert (event.base, event.head) == ("b2" * 20, SHA)
    assert event.changed is None


@pytest.mark.parametrize("head", ["them/it", "us/it2", None, "", 7, "US/it"])
def test_whatever_is_not_surely_ours_is_foreign(head: Any) -> None:
    """A fork, a fork that was deleted, and anything of another shape."""
    assert parse_event("pull_request", pull(head)).foreign


@pytest.mark.parametrize("data", [b"{}", b'{"pull_request": []}', b'{"pull_request": {"labels": "gpu"}}'])
def test_a_pull_request_of_another_shape_is_foreign(data: bytes) -> None:
    """Missing fields never open a door."""
    event = parse_event("pull_request", data)
    assert event.foreign
    assert event.labels == frozenset()


@pytest.mark.parametrize("name", ["pull_request_target", "workflow_run", "issue_comment", ""])
def test_other_events_plan_nothing(name: str) -> None:
    """Events that run with secrets on a stranger's word are refused."""
    with pytest.raises(EventError, match="no job is planned"):
        parse_event(name, b"{}")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_an_unreadable_event_is_an_error(data: bytes) -> None:
    """No event, no plan."""
    with pytest.raises(EventError):
        parse_event("push", data)


@pytest.mark.parametrize("before", ["0" * 40, "--output=x", "HEAD", None, "A1" * 20])
def test_only_a_commit_is_compared_with(before: Any) -> None:
    """A new branch has no commit before it; and nothing that git could read as an option is taken."""
    event = parse_event("push", json.dumps({"before": before, "after": SHA}).encode())
    assert (event.base, event.head) == (None, SHA)


def test_a_manual_run_and_a_schedule() -> None:
    """Both are ours, whatever stands in the event."""
    assert parse_event("workflow_dispatch", pull("them/it")).kind is EventKind.MANUAL
    assert not parse_event("schedule", b"{}").foreign
