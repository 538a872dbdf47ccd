"""A/A files: read strictly, written canonically."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from ci.results.aa import AaError, read_aa, session_problem, write_aa
from ci.results.records import AaSession, AbSession, Acceptance


def aa(run: str = "r1", case: str = "short", order: str = "ABBA") -> AaSession:
    """A session of one block."""
    values = tuple(100.0 + index for index in range(len(order)))
    boots = AbSession(run, ("patched", "patched"), order, values)
    accepted = Acceptance(date="2026-09-01", by="Ada", why="noise of the lane")
    return AaSession(1, "throughput", case, "step_ms", "ms", boots, {"gpu": "RTX 3090"}, accepted)


def test_round_trip_is_sorted_and_stable(tmp_path: Path) -> None:
    """What was written is read, in one order whatever the order of writing."""
    path = tmp_path / "aa.jsonl"
    write_aa(path, [aa("r2"), aa("r1"), aa("r1", "long")])
    first = path.read_bytes()
    assert [(one.case, one.session.run) for one in read_aa(path)] == [
        ("long", "r1"),
        ("short", "r1"),
        ("short", "r2"),
    ]
    write_aa(path, reversed(read_aa(path)))
    assert path.read_bytes() == first


def test_no_file_is_no_session(tmp_path: Path) -> None:
    """A lane without A/A sessions has none; that is no error."""
    assert read_aa(tmp_path / "aa.jsonl") == ()


def _line(**changes: object) -> bytes:
    line = json.loads(msgspec.json.encode(aa()))
    line["session"] |= changes.pop("session", {})  # type: ignore[arg-type]
    return json.dumps(line | changes).encode()


BROKEN = {
    "torn": _line()[:-3],
    "schema": _line(schema=2),
    "unknown field": _line(extra=1),
    "arms differ": _line(session={"arms": ["stock", "patched"]}),
    "order": _line(session={"order": "ABAB"}),
    "length": _line(session={"values": [1.0, 2.0]}),
    "zero": _line(session={"values": [1.0, 2.0, 0.0, 1.0]}),
    "twice": _line() + b"\n" + _line(),
    "not utf-8": _line().replace(b"short", b"\xff"),
    "no object": b"[]",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_lines_are_named(name: str, tmp_path: Path) -> None:
    """A line that is no usable A/A session is an error with the file's name."""
    path = tmp_path / "aa.jsonl"
    path.write_bytes(b"\n" + BROKEN[name] + b"\n")
    with pytest.raises(AaError, match=r"aa\.jsonl"):
        read_aa(path)


@pytest.mark.parametrize("order", ["AB", "ABB", "ABBA", "ABBAABBA"])
def test_every_beginning_of_the_order_is_usable(order: str) -> None:
    """A session that stopped early still has its boots in the planned order."""
    assert session_problem(aa(order=order).session) is None
