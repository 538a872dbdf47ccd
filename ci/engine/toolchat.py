"""Two conversations in which a model has to call the right tool, some sixty completions each.

Which calls are right is shown, not judged: published boots of one configuration differed in two decisions.
What is judged is whether a completion ran in a loop or did not come to its end, as the reference's did.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci.engine.server import ServerError
from ci.results.quality import Talk

TURNS = 60
MAX_TOKENS = 512
LOOKBACK = 12
"""Messages that stay in view, so that a conversation does not outgrow the context."""
TOOLS = {
    "open_valve": "Open the valve with this number.",
    "close_valve": "Close the valve with this number.",
    "read_gauge": "Read the gauge with this number.",
    "start_pump": "Start the pump with this number.",
    "call_crew": "Call the crew of the station with this number.",
}
NOTHING = "nothing"
"""What the right decision is where a message asks for no tool."""
ENDS = ("stop", "tool_calls")
"""Reasons to finish that are the model's own: not the limit, and not an engine that gave up."""
CONVERSATIONS = ("judgment", "mission")

Post = Callable[[Mapping[str, Any]], dict[str, Any]]
Loops = Callable[[str], bool]


@dataclass(frozen=True)
class Turn:
    """One message and the call that it asks for."""

    message: str
    tool: str
    number: int


def turns_of(name: str, seed: int, count: int = TURNS) -> list[Turn]:
    """The messages of a conversation, the same for the same seed."""
    draw = random.Random(f"{name}-{seed}")  # noqa: S311 - a script, not a secret
    return [turn_of(name, draw) for _ in range(count)]


def turn_of(name: str, draw: random.Random) -> Turn:
    """One message: a plain order in a mission; a remark as often as an order where judgment is asked for."""
    tool, number = draw.choice(sorted(TOOLS)), draw.randrange(1, 40)
    if name == "judgment" and draw.random() < 0.5:
        return Turn(
            f"Only for your information: somebody mentioned number {number} this morning.", NOTHING, number
        )
    return Turn(f"Please use {tool} on number {number} now.", tool, number)


def tool_list() -> list[dict[str, Any]]:
    """The tools as the API takes them."""
    parameters = {
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
    }
    return [
        {"type": "function", "function": {"name": name, "description": text, "parameters": parameters}}
        for name, text in TOOLS.items()
    ]


def talk(post: Post, model: str, turns: Sequence[Turn], loops: Loops) -> Talk:
    """Hold a conversation: every message, and of every answer its text, or that its call was done.

    Args:
        post: asks the chat page; raises for anything but an answer.
        model: as the server calls it.
        turns: of the conversation.
        loops: tells whether a text runs in a loop; it sees calls and reasoning, too.
    """
    history: list[dict[str, Any]] = []
    right = looping = truncated = 0
    for turn in turns:
        history.append({"role": "user", "content": turn.message})
        asked = {
            "model": model,
            "messages": history[-LOOKBACK:],
            "tools": tool_list(),
            "temperature": 0,
            "max_tokens": MAX_TOKENS,
            "chat_template_kwargs": {"enable_thinking": False},
        }
        choice, message = answer_of(post(asked))
        text = str(message.get("content") or "")
        right += decision_of(message) == (turn.tool, turn.number if turn.tool != NOTHING else None)
        said = said_by(message)
        looping += loops(said)
        truncated += choice.get("finish_reason") not in ENDS or not said
        history.append({"role": "assistant", "content": text or "Done."})
    return Talk(len(turns), right, looping, truncated)


def answer_of(said: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The choice and the message of a completion.

    Raises:
        ServerError: it has none.
    """
    try:
        choice = said["choices"][0]
        message = choice["message"]
    except (KeyError, IndexError, TypeError):
        choice = message = None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ServerError(f"a chat was answered with {str(said)[:200]}")
    return choice, message


def said_by(message: Mapping[str, Any]) -> str:
    """All that a message holds: reasoning, under either name, text, and calls without their ids."""
    calls = message.get("tool_calls") or []
    # A server may send the same reasoning under both names.
    pieces = [message.get("reasoning_content") or message.get("reasoning"), message.get("content")]
    pieces += [spelled(call) for call in (calls if isinstance(calls, list) else [calls])]
    return "\n".join(str(piece) for piece in pieces if piece).strip()


def spelled(call: object) -> str:
    """A call as words; one that cannot be read as it is."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return str(call)
    return f"{function.get('name')} {function.get('arguments')}"


def decision_of(message: Mapping[str, Any]) -> tuple[str, int | None]:
    """Which tool was called on which number; `nothing` if none was; an unreadable call is none of either."""
    calls = message.get("tool_calls") or []
    if not calls:
        return NOTHING, None
    try:
        function = calls[0]["function"]
        arguments = json.loads(function["arguments"])
        return str(function["name"]), int(arguments["number"])
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError):
        return "unreadable", None
