"""What one healthy engine is asked for, and the numbers that follow from its answers.

For each prompt: all tokens once (which fills the prefix cache, and has every kernel compiled that the
prompt needs; with a prefix cache one token as well, for what a cached prompt needs), then rounds of one
token and all tokens. The first request of a round does what its second does before the first decode step,
so their differences are decode alone. That holds without a prefix cache, too.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ci.engine.client import DEADLINE_S, RequestFailedError, Streamed, stream
from ci.engine.metrics import Counter, Growth, MetricsError, Snapshot, growth, settled
from ci.engine.profile import Measure, Point
from ci.engine.prompts import common_tail, exact_prompt
from ci.engine.server import Server, ServerError
from ci.errors import GateError
from ci.results.throughput import Number, PointMeasure

SETTLE_S = 0.05
CIRCLE_TOKENS = 32
"""At the end of a prompt. vLLM's n-gram of 5 finds 7 drafts in so many, up to a period of 20."""
CIRCLE_WORDS = 256
"""Tokens of the prompt behind which an engine shows its circle; half of what it then writes is left out."""
FULL_STEPS = 0.9
"""Share of the tokens that full drafts give: all steps of a circle but the first ones."""
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
        body = {"prompt": list(prompt), "max_tokens": max_tokens, "temperature": 0, **ALL_TOKENS}
        got = stream(self.server.url("/v1/completions"), body)
        return served_answer(got, before, self.counters())

    def written(self, prompt: Sequence[int], max_tokens: int) -> list[int]:
        """As its server gives them beside the text."""
        body = {"prompt": list(prompt), "max_tokens": max_tokens, "temperature": 0, **ALL_TOKENS}
        said = self.server.post("/v1/completions", body | {"return_token_ids": True}, DEADLINE_S)
        choices = said.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else {}
        return tokens_of({"tokens": first.get("token_ids")}, "completion")

    def counters(self) -> Snapshot | str:
        """The counters, once they stand still; the reason if there are none."""
        try:
            return settled(lambda: self.server.get("/metrics"), lambda: time.sleep(SETTLE_S))
        except MetricsError as error:
            return error.what


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
        return tokens_of(self.timed(prompt, max_tokens), "record of a request")

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


def tokens_of(said: dict[str, Any], what: str = "tokenizer's answer") -> list[int]:
    """Token ids out of an answer.

    Raises:
        ServerError: there are none.
    """
    tokens = said.get("tokens")
    if not isinstance(tokens, list) or not tokens or not all(type(one) is int for one in tokens):
        raise ServerError(f"the {what} has no token ids: {str(said)[:200]}")
    return tokens


def circle(engine: Engine, seed: int) -> list[int]:
    """A stretch of what the engine writes, long enough behind other words for its circle to have begun."""
    words = exact_prompt(engine.encode, "prose", seed, CIRCLE_WORDS)
    return engine.written(words, 2 * CIRCLE_TOKENS)[-CIRCLE_TOKENS:]


def measure_points(
    engine: Engine, measure: Measure, *, cached: bool, depth: int = 0
) -> tuple[list[PointMeasure], list[str]]:
    """Time every prompt, shorter ones of a kind first; what went wrong ends the boot's measuring.

    Args:
        engine: healthy, and asked by nobody else.
        measure: the prompts, the tokens of a timed request, the seed of the prose, the rounds.
        cached: whether the engine has a prefix cache, whose hits then must be seen.
        depth: tokens drafted per step.

    Returns:
        What was measured, and the problems; a boot with a problem is not compared.
    """
    found: list[PointMeasure] = []
    generate = measure.generate
    try:
        tail = circle(engine, measure.seed + 2) if measure.circle else engine.tail()
        shortest = min(point.tokens for point in measure.points)
        # Other words: what the first prefill compiles is no part of a prompt's time, and no prompt's cache.
        engine.ask(exact_prompt(engine.encode, "prose", measure.seed + 1, shortest, tail), generate)
        for point in sorted(measure.points, key=lambda one: (one.kind, one.tokens)):
            prompt = exact_prompt(engine.encode, point.kind, measure.seed, point.tokens, tail)
            first = engine.ask(prompt, generate)
            if cached:
                engine.ask(prompt, 1)
            rounds = [(engine.ask(prompt, 1), engine.ask(prompt, generate)) for _ in range(measure.rounds)]
            problems = request_problems(point, generate, first, rounds, cached=cached)
            one = point_measure(point, prompt, first, rounds)
            problems += part_steps(one, depth) if measure.circle else []
            if problems:
                return found, problems
            found.append(one)
    except GateError as error:
        kind = error.failure.name.lower() if isinstance(error, RequestFailedError) else type(error).__name__
        return found, [f"a request failed ({kind}): {error.what}"]
    return found, []


Round = tuple[Answer, Answer]
"""One token, then all tokens of the same prompt."""


def median_round(rounds: Sequence[Round]) -> Round:
    """Of an odd number of rounds the one of median time per step: one that really was, not a mean."""

    def time(one: Round) -> float:
        again, whole = one
        alone_s = whole.total_s - again.total_s
        return alone_s / (steps_between(again, whole).value or 1.0)

    return sorted(rounds, key=time)[len(rounds) // 2]


def request_problems(
    point: Point, generate: int, first: Answer, rounds: Sequence[Round], *, cached: bool
) -> list[str]:
    """What makes the requests of a prompt no measurement."""
    problems = []
    asked = [(first, generate)]
    for again, whole in rounds:
        asked += [(again, 1), (whole, generate)]
    for answer, tokens in asked:
        if answer.prompt_tokens != point.tokens:
            problems.append(f"{point.name}: the server counted {answer.prompt_tokens} prompt tokens")
            break
        if answer.completion_tokens != tokens:
            problems.append(f"{point.name}: {answer.completion_tokens} tokens were generated, not {tokens}")
            break
    if cached:
        problems += hit_problems(point, rounds)
    return problems


def part_steps(one: PointMeasure, depth: int) -> list[str]:
    """Whether steps without a full draft were timed as well: the engine has left its circle."""
    seen, full = one.tokens_per_step.value, depth + 1
    if seen is not None and seen < FULL_STEPS * full:
        return [f"{one.point}: {seen:.2f} tokens per step, of {full} with full drafts: no circle was met"]
    return []


def hit_problems(point: Point, rounds: Sequence[Round]) -> list[str]:
    """What the hits of the prefix cache show to be no decode alone."""
    for again, whole in rounds:
        hits = (again.cached.value, whole.cached.value)
        if hits[0] is None or hits[1] is None:
            why = again.cached.reason or whole.cached.reason
            return [f"{point.name}: the prefix cache's hits could not be read: {why}"]
        if hits[0] != hits[1] or not hits[0] > 0:
            return [f"{point.name}: unequal hits of the prefix cache: {hits[0]:g} and {hits[1]:g} tokens"]
    return []


def point_measure(
    point: Point, prompt: Sequence[int], first: Answer, rounds: Sequence[Round]
) -> PointMeasure:
    """The numbers of one prompt; those that need steps are None where steps could not be counted."""
    again, whole = median_round(rounds)
    generated = whole.completion_tokens
    steps = steps_between(again, whole)
    drafts = whole.drafts
    alone_s = whole.total_s - again.total_s
    return PointMeasure(
        point=point.name,
        prompt_tokens=whole.prompt_tokens,
        completion_tokens=generated,
        chunks=whole.chunks,
        steps=steps,
        drafts=Number(drafts.value, drafts.reason),
        decode_tok_s=ratio(generated, whole.decode_s, "all text came in one piece"),
        step_ms=per_step(whole.decode_s, steps),
        tokens_per_step=ratio(generated - 1, steps.value, steps.reason or "no step"),
        isolated_tok_s=ratio(generated - 1, alone_s, "the longer request took no longer"),
        isolated_step_ms=per_step(alone_s, steps),
        prefill_ms=Number(first.ttft_s * 1e3),
        cached_tokens=Number(whole.cached.value, whole.cached.reason),
        round_ms=tuple(1e3 * (whole.total_s - again.total_s) for again, whole in rounds),
        prompt_sha256=hashlib.sha256(json.dumps(list(prompt)).encode()).hexdigest(),
        text_sha256=hashlib.sha256(whole.text.encode()).hexdigest(),
    )


def steps_between(again: Answer, whole: Answer) -> Number:
    """Decode steps: the steps of the longer request less those of the one that ends with its first token."""
    for answer in (again, whole):
        if answer.iterations.value is None:
            return Number(None, answer.iterations.reason)
    steps = (whole.iterations.value or 0.0) - (again.iterations.value or 0.0)
    if not 1 <= steps < whole.completion_tokens:
        return Number(None, f"{steps:g} decode steps cannot have given {whole.completion_tokens} tokens")
    if whole.chunks > steps + 1:
        return Number(None, f"{whole.chunks} pieces of text came in {steps:g} decode steps")
    return Number(steps)


def ratio(above: float, below: float | None, reason: str) -> Number:
    """A quotient, or why there is none."""
    return Number(above / below) if below is not None and below > 0 else Number(None, reason)


def per_step(seconds: float, steps: Number) -> Number:
    """Milliseconds per step."""
    if steps.value is None:
        return steps
    return Number(seconds * 1e3 / steps.value) if seconds > 0 else Number(None, "all text came in one piece")


def soak(engine: Engine, seconds: float, clock: Callable[[], float] = time.monotonic) -> int:
    """Keep the GPU at work so that it is warm when the first boot counts; returns the requests made."""
    until, made = clock() + seconds, 0
    prompt = exact_prompt(engine.encode, "prose", 0, 256, [])
    while clock() < until:
        engine.ask(prompt, 128)
        made += 1
    return made
