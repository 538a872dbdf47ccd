"""Engines that can be asked to generate: vLLM's server, or an engine in one process.  What an answer took."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ci.engine.client import DEADLINE_S, Streamed, stream
from ci.engine.metrics import Counter, Growth, MetricsError, Snapshot, growth, settled
from ci.engine.prompts import common_tail
from ci.engine.server import Server, ServerError

SETTLE_S = 0.05
NO_THINKING = {"enable_thinking": False}
"""What the chat templates of models that think take to leave it out."""
ALL_TOKENS = {"ignore_eos": True, "skip_special_tokens": False}
"""Generate on after the answer's end, and send the tokens there as text: a chunk without text has no time."""


@dataclass(frozen=True)
class Answer:
    """One request that succeeded. Times are seconds since it was sent."""

    ttft_s: float
    total_s: float
    chunks: int
    prompt_tokens: int
    completion_tokens: int
    text: str
    iterations: Growth
    """Engine steps that gave tokens."""
    drafts: Growth
    cached: Growth
    """Prompt tokens from the prefix cache."""

    @property
    def decode_s(self) -> float:
        """From the first text to the last."""
        return self.total_s - self.ttft_s


class Engine(Protocol):
    """An engine that can be asked; how is its own business."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a text as a prompt."""

    def tail(self) -> list[int]:
        """Tokens that every prompt has to end with."""

    def ask(self, prompt: Sequence[int], max_tokens: int) -> Answer:
        """Generate greedily; raises RequestFailedError or MetricsError."""

    def written(self, prompt: Sequence[int], max_tokens: int) -> list[int]:
        """The tokens that it generates."""


@dataclass(frozen=True)
class ServedEngine:
    """vLLM's OpenAI-compatible server."""

    server: Server
    chat: bool = False

    def encode(self, text: str) -> list[int]:
        """By the server's own tokenizer; a chat message with its template around it."""
        asked: dict[str, Any] = {"prompt": text}
        if self.chat:
            asked = {
                "messages": [{"role": "user", "content": text}],
                "add_generation_prompt": True,
                "chat_template_kwargs": NO_THINKING,
            }
        return tokens_of(self.server.post("/tokenize", asked))

    def tail(self) -> list[int]:
        """What the chat template puts behind the message."""
        return (
            common_tail(self.encode("One message."), self.encode("Another one, of other words"))
            if self.chat
            else []
        )

    def ask(self, prompt: Sequence[int], max_tokens: int) -> Answer:
        """Stream a completion, and read what the server counted meanwhile."""
        before = self.counters()
        got = stream(self.server.url("/v1/completions"), greedy(prompt, max_tokens))
        return served_answer(got, before, self.counters())

    def written(self, prompt: Sequence[int], max_tokens: int) -> list[int]:
        """As its server gives them beside the text."""
        body = greedy(prompt, max_tokens) | {"return_token_ids": True}
        said = self.server.post("/v1/completions", body, DEADLINE_S)
        match said:
            case {"choices": [{"token_ids": [int(), *_] as tokens}, *_]}:
                return tokens_of({"tokens": tokens})
        raise ServerError(
            f"the completion has no token ids: {str(said)[:200]}",
            cause="a server that does not know return_token_ids, or an error",
            remedy="--in-process, or a profile without circle",
        )

    def counters(self) -> Snapshot | str:
        """The counters, once they stand still; the reason if there are none."""
        try:
            return settled(lambda: self.server.get("/metrics"), lambda: time.sleep(SETTLE_S))
        except MetricsError as error:
            return error.what


def greedy(prompt: Sequence[int], max_tokens: int) -> dict[str, Any]:
    """A completion's body: the likeliest tokens, on beyond the end of an answer."""
    return {"prompt": list(prompt), "max_tokens": max_tokens, "temperature": 0, **ALL_TOKENS}


def served_answer(got: Streamed, before: Snapshot | str, after: Snapshot | str) -> Answer:
    """A streamed request with the growth of the counters over it."""

    def grown(counter: Counter) -> Growth:
        if isinstance(before, str) or isinstance(after, str):
            return Growth(None, before if isinstance(before, str) else str(after))
        return growth(before, after, counter)

    cached = got.usage.cached_tokens
    return Answer(
        ttft_s=got.ttft_s,
        total_s=got.total_s,
        chunks=len(got.content_s),
        prompt_tokens=got.usage.prompt_tokens,
        completion_tokens=got.usage.completion_tokens,
        text=got.text,
        iterations=grown(Counter.ITERATIONS),
        drafts=grown(Counter.DRAFTS),
        cached=Growth(float(cached)) if cached is not None else grown(Counter.CACHE_HITS),
    )


@dataclass(frozen=True)
class InProcessEngine:
    """The engine of `ci.engine.inprocess`, timed inside its own process."""

    server: Server

    def encode(self, text: str) -> list[int]:
        """By the engine's tokenizer."""
        return tokens_of(self.server.post("/encode", {"prompt": text}))

    def tail(self) -> list[int]:
        """Nothing: it knows no chats."""
        return []

    def ask(self, prompt: Sequence[int], max_tokens: int) -> Answer:
        """Have a request timed by the engine's steps."""
        return timed_answer(self.timed(prompt, max_tokens))

    def written(self, prompt: Sequence[int], max_tokens: int) -> list[int]:
        """As its record has them."""
        return tokens_of(self.timed(prompt, max_tokens))

    def timed(self, prompt: Sequence[int], max_tokens: int) -> dict[str, Any]:
        """The engine's own record of a request."""
        return self.server.post("/timed", {"prompt": list(prompt), "max_tokens": max_tokens}, DEADLINE_S)


def timed_answer(said: dict[str, Any]) -> Answer:
    """The answer that the engine's own record of its steps gives.

    Raises:
        ServerError: the record has no steps or is of another form.
    """
    try:
        steps = [(float(at), int(tokens)) for at, tokens in said["steps"]]
        cached = said["cached_tokens"]
        if not steps:
            raise ServerError("the engine generated nothing", remedy="read the engine's log")
        return Answer(
            ttft_s=steps[0][0],
            total_s=steps[-1][0],
            chunks=len(steps),
            prompt_tokens=int(said["prompt_tokens"]),
            completion_tokens=sum(tokens for _, tokens in steps),
            text=json.dumps(said["tokens"]),
            iterations=Growth(float(len(steps))),
            drafts=Growth(None, "an engine in one process keeps no count of drafts"),
            cached=Growth(None, "the engine does not say") if cached is None else Growth(float(cached)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ServerError(f"the engine's record cannot be read: {error!r}") from error


def tokens_of(said: dict[str, Any]) -> list[int]:
    """Token ids out of an answer.

    Raises:
        ServerError: there are none.
    """
    tokens = said.get("tokens")
    if not isinstance(tokens, list) or not tokens or not all(type(one) is int for one in tokens):
        raise ServerError(f"an answer without token ids: {str(said)[:200]}")
    return tokens
