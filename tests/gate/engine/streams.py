"""Streams as servers send them, and what a right reader makes of each."""

from __future__ import annotations

import json
from typing import Any

USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}


def event(payload: object, end: str = "\n") -> str:
    """One event with one data line."""
    return f"data: {payload if isinstance(payload, str) else json.dumps(payload)}{end}{end}"


def delta(finish: str | None = None, **fields: object) -> dict[str, Any]:
    """A chat chunk."""
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": fields, "finish_reason": finish}],
    }


def text(word: str, finish: str | None = None, **more: object) -> dict[str, Any]:
    """A completion chunk."""
    return {
        "object": "text_completion",
        "choices": [{"index": 0, "text": word, "finish_reason": finish, **more}],
        "usage": None,
    }


def last(**usage: object) -> dict[str, Any]:
    """The chunk that carries only usage."""
    return {"choices": [], "usage": {**USAGE, **usage}}


def joined(*payloads: object, end: str = "\n") -> bytes:
    """A stream with its [DONE]."""
    return "".join(event(one, end) for one in (*payloads, "[DONE]")).encode()


ROLE = delta(role="assistant", content="")
TWO_LINES = (
    "event: message\nid: 7\nretry: 3000\n: a comment\n"
    'data: {"choices":\ndata: [{"index":0,"delta":{"content":"a b"}}]}\n\n'
    'data:{"choices":[{"index":0,"delta":{"content":"c"}}]}\n\n'
)
GOOD: dict[str, tuple[bytes, int, str, int]] = {
    # name: stream, chunks of text, text, completion tokens
    "completion": (joined(text("a b"), text("c", "length"), last()), 2, "a bc", 5),
    "chat": (joined(ROLE, delta(content="x"), delta("stop"), last()), 1, "x", 5),
    "role is null": (joined(delta(role="assistant", content=None), delta(content="x"), last()), 1, "x", 5),
    "crlf": (joined(ROLE, delta(content="x"), last(), end="\r\n"), 1, "x", 5),
    "crlf, then lf": (joined(ROLE, delta(content="x"), last()).replace(b"\n\n", b"\r\n\n"), 1, "x", 5),
    "cr": (joined(ROLE, delta(content="x"), last(), end="\r"), 1, "x", 5),
    "bom and blank data": (b"\xef\xbb\xbfdata:\n\n" + joined(delta(content="x"), last()), 1, "x", 5),
    "two data lines": (TWO_LINES.encode() + joined(last()), 2, "a bc", 5),
    "two data lines, crlf": (
        TWO_LINES.replace("\n", "\r\n").encode() + joined(last(), end="\r\n"),
        2,
        "a bc",
        5,
    ),
    "no space before done": (joined(text("a"), last()).replace(b"data: [", b"data:["), 1, "a", 5),
    "running totals": (
        joined(
            {**delta(content="a"), "usage": {**USAGE, "completion_tokens": 2}},
            {**delta(content="b"), "usage": {**USAGE, "completion_tokens": 4}},
            last(completion_tokens=4),
        ),
        2,
        "ab",
        4,
    ),
    "held back and tool calls": (
        joined(
            delta(content=""), delta(content="café"), delta(tool_calls=[{"index": 0}]), delta("stop"), last()
        ),
        1,
        "café",
        5,
    ),
    "reasoning, old name": (joined(delta(reasoning_content="a"), delta(content="b"), last()), 2, "ab", 5),
    "reasoning only": (joined(delta(reasoning="a"), delta("length", reasoning="b"), last()), 2, "ab", 5),
    "line separators inside": (
        f"data: {json.dumps(text(chr(0x2028) + chr(0x85)), ensure_ascii=False)}\n\n".encode()
        + joined(last()),
        1,
        "\u2028\x85",
        5,
    ),
    "tokens without text": (joined(text("", token_ids=[7]), text("b", token_ids=[8]), last()), 2, "b", 5),
    "other choices": (
        joined(
            text("Y", index=1),
            {"choices": [{"index": 1, "text": "Z"}, {"index": 0, "text": "a"}]},
            text("b"),
            text("", "error", index=1),
            last(),
        ),
        2,
        "ab",
        5,
    ),
    "after done": (joined(text("a"), last()) + joined(text("b"), last(completion_tokens=9)), 1, "a", 5),
}
BAD: dict[str, tuple[bytes, str]] = {
    # name: stream, kind of failure
    "no usage": (joined(text("a"), text("b", "stop")), "NO_USAGE"),
    "no done": (joined(text("a"), last()).removesuffix(b"data: [DONE]\n\n"), "NO_DONE"),
    "prompt tokens are no number": (joined(text("a"), last(prompt_tokens=True)), "NO_USAGE"),
    "tokens are no number": (joined(text("a"), last(completion_tokens=True)), "NO_USAGE"),
    "done only": (b"data: [DONE]\n\n", "NO_USAGE"),
    "nothing": (b"", "NO_DONE"),
    "error then done": (joined({"error": {"message": "engine timeout", "code": 504}}), "ERROR"),
    "error after text": (joined(text("a"), {"error": {"message": "died"}}, last()), "ERROR"),
    "flat error": (event({"object": "error", "message": "too long", "code": 400}).encode(), "ERROR"),
    "cut": (joined(text("a"), last())[:-30], "CUT"),
    "plain json": (b'{"error": {"message": "The model does not exist."}}', "CUT"),
    "not json": (joined("oops"), "BROKEN_EVENT"),
    "a list": (joined([1]), "BROKEN_EVENT"),
    "no text": (joined(ROLE, delta("stop"), last(completion_tokens=0)), "NO_CONTENT"),
    "finish error": (joined(text("a"), text("", "error"), last()), "ERROR"),
    "finish abort": (joined(text("a"), delta("abort"), last()), "ERROR"),
    "finish error after done": (joined(text("a"), last()) + joined(text("", "error")), "ERROR"),
    "error after done": (joined(text("a"), last()) + event({"error": {"message": "late"}}).encode(), "ERROR"),
    "error event after done": (joined(text("a"), last()) + b"event: error\n\n", "ERROR"),
}
BARE = '{"error": {"message": "died"}}\n'
IN_A_GOOD_STREAM = {
    # name: what stands between a chunk of text and a good end, kind of failure
    "error event": ("event: error\n" + event({"message": "died"}), "ERROR"),
    "error event, no json": ("event:error\n" + event("died"), "ERROR"),
    "error event around text": (event(text("b")).replace("\n\n", "\nevent: error\n\n"), "ERROR"),
    "error event, no data": ("event: error\n\n", "ERROR"),
    "empty error object": (event({"error": {}}), "ERROR"),
    "empty error beside text": (event({**text("b"), "error": ""}), "ERROR"),
    "flat error, no object": (event({"message": "too long", "code": 400}), "ERROR"),
    "flat error beside choices": (event({**text("b"), "object": "error"}), "ERROR"),
    "detail": (event({"detail": "Internal Server Error"}), "ERROR"),
    "choices and usage null": (event({"choices": None, "usage": None}), "ERROR"),
    "bare error": (BARE + "\n", "ERROR"),
    "bare error on top of a chunk": (BARE + event(text("b")), "BROKEN_EVENT"),
}
for shape, (between, kind) in IN_A_GOOD_STREAM.items():
    BAD[shape] = ((event(text("a")) + between).encode() + joined(last()), kind)
