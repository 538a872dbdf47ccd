"""Tool conversations: decisions, loops and truncations are counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ci.engine.server import ServerError
from ci.engine.toolchat import CONVERSATIONS, NOTHING, TOOLS, TURNS, decision_of, talk, turns_of
from ci.gate.quality import repeats
from tests.gate.engine import answering


def post(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The answering server's own function."""
    return answering.chat(dict(asked))


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_scripts(name: str) -> None:
    """Sixty messages from a seed; only judgment has messages that ask for nothing."""
    turns = turns_of(name, 1)
    assert len(turns) == TURNS == 60
    assert turns == turns_of(name, 1) != turns_of(name, 2)
    assert (NOTHING in {turn.tool for turn in turns}) is (name == "judgment")
    assert {turn.tool for turn in turns} - {NOTHING} == set(TOOLS)


def test_a_model_that_always_calls() -> None:
    """It is right wherever a tool is asked for, and wrong where none is."""
    mission, judgment = turns_of("mission", 1), turns_of("judgment", 1)
    assert talk(post, "m", mission, repeats).right == 60
    talked = talk(post, "m", judgment, repeats)
    assert talked.right == sum(turn.tool != NOTHING for turn in judgment)
    assert (talked.completions, talked.loops, talked.truncated) == (60, 0, 0)


@pytest.mark.parametrize(("fault", "loops", "truncated"), [("loop", 60, 0), ("cut", 0, 60)])
def test_loops_and_truncations(
    monkeypatch: pytest.MonkeyPatch, fault: str, loops: int, truncated: int
) -> None:
    """Texts that run in a loop, and completions that were cut at their limit, are counted one by one."""
    monkeypatch.setitem(answering.PLAN, "fault", fault)
    talked = talk(post, "m", turns_of("mission", 1), repeats)
    assert (talked.right, talked.loops, talked.truncated) == (0, loops, truncated)


@pytest.mark.parametrize(
    ("calls", "decision"),
    [
        (None, (NOTHING, None)),
        ([], (NOTHING, None)),
        ([{"function": {"name": "read_gauge", "arguments": '{"number": 7}'}}], ("read_gauge", 7)),
        ([{"function": {"name": "read_gauge", "arguments": "{"}}], ("unreadable", None)),
        ([{"function": {"name": "read_gauge", "arguments": json.dumps({"n": 7})}}], ("unreadable", None)),
        ([{"function": {"name": "read_gauge", "arguments": '{"number": Infinity}'}}], ("unreadable", None)),
        ([{"function": {"name": "read_gauge", "arguments": "[" * 100_000}}], ("unreadable", None)),
    ],
)
def test_decisions(calls: object, decision: tuple[str, int | None]) -> None:
    """A call that cannot be read is neither the right one nor no call."""
    assert decision_of({"content": "x", "tool_calls": calls}) == decision


@pytest.mark.parametrize("said", [{}, {"choices": []}, {"choices": [{"message": None}]}, {"choices": ["x"]}])
def test_no_answer(said: dict[str, Any]) -> None:
    """A page that holds no message is an error of the server, not of the model."""
    with pytest.raises(ServerError, match="a chat was answered with"):
        talk(lambda _asked: said, "m", turns_of("mission", 1, 1), repeats)
