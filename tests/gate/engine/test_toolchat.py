"""Tool conversations: decisions, loops and truncations are counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ci.engine.server import ServerError
from ci.engine.toolchat import (
    CONVERSATIONS,
    LOOKBACK,
    NOTHING,
    TOOLS,
    TURNS,
    decision_of,
    said_by,
    talk,
    turns_of,
)
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


def test_a_model_that_never_calls() -> None:
    """It is right where no tool is asked for, and nowhere else."""
    judgment = turns_of("judgment", 1)
    silent = {"choices": [{"message": {"content": "I see."}, "finish_reason": "stop"}]}
    assert talk(lambda _: silent, "m", judgment, repeats).right == sum(
        turn.tool == NOTHING for turn in judgment
    )


def test_what_is_asked() -> None:
    """The last messages of both sides, in order, with every tool, greedily, and without thinking."""
    asked: list[dict[str, Any]] = []

    def keep(one: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(dict(one))
        return post(one)

    turns = turns_of("mission", 1, 20)
    talk(keep, "m", turns, repeats)
    first, last = asked[0]["messages"], asked[-1]["messages"]
    assert first == [{"role": "user", "content": turns[0].message}]
    assert [one["content"] for one in asked[1]["messages"]] == [turns[0].message, "Done.", turns[1].message]
    assert len(last) == LOOKBACK
    assert [one["content"] for one in last[1::2]] == [turn.message for turn in turns[-LOOKBACK // 2 :]]
    assert {one["temperature"] for one in asked} == {0}
    assert all(one["chat_template_kwargs"] == {"enable_thinking": False} for one in asked)
    assert {tool["function"]["name"] for tool in asked[-1]["tools"]} == set(TOOLS)


CALL = {"function": {"name": "open_valve", "arguments": '{"number": 1}'}}
AGAIN = {
    "function": {"name": "open_valve", "arguments": '{"number": 1, "note": "' + "on and on " * 30 + '"}'}
}


@pytest.mark.parametrize(
    ("message", "finish", "loops", "truncated"),
    [
        ({"content": "I see."}, "stop", 0, 0),
        ({"tool_calls": [CALL]}, "tool_calls", 0, 0),
        ({"content": "I see."}, "abort", 0, 1),
        ({"content": "I see."}, None, 0, 1),
        ({"content": None}, "length", 0, 1),
        ({"content": ""}, "stop", 0, 1),
        ({"content": " ", "tool_calls": []}, "stop", 0, 1),
        ({"tool_calls": [AGAIN]}, "tool_calls", 1, 0),
        ({"tool_calls": [CALL | {"id": str(number)} for number in range(60)]}, "tool_calls", 1, 0),
        ({"content": "", "reasoning_content": "I will look now. " * 12}, "stop", 1, 0),
        ({"content": "I see.", "reasoning": "I will look now. " * 12}, "stop", 1, 0),
        (dict.fromkeys(("reasoning_content", "reasoning"), "I will look now. " * 2), "stop", 0, 0),
    ],
)
def test_all_of_an_answer_counts(
    message: dict[str, Any], finish: str | None, loops: int, truncated: int
) -> None:
    """Loops are looked for in calls and reasoning; no text or call, and an end not its own, are no end."""
    said = {"choices": [{"message": message, "finish_reason": finish}]}
    talked = talk(lambda _: said, "m", turns_of("mission", 1, 1), repeats)
    assert (talked.loops, talked.truncated) == (loops, truncated)


@pytest.mark.parametrize("calls", ["x", 5, [5], [{"function": None}], [None], {"function": "x"}])
def test_odd_calls(calls: object) -> None:
    """Calls that cannot be read are something that was said."""
    assert said_by({"content": None, "tool_calls": calls})


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
