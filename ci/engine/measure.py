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

from ci.engine.client import RequestFailedError
from ci.engine.engines import Answer, Engine
from ci.engine.profile import Measure, Point
from ci.engine.prompts import exact_prompt
from ci.errors import GateError
from ci.results.throughput import Number, PointMeasure

STEPS_OVER = 1
"""Steps more than full drafts need that a round may take: an engine has to find into the circle."""


def measure_points(
    engine: Engine, measure: Measure, *, cached: bool, depth: int, tail: Sequence[int] = ()
) -> tuple[list[PointMeasure], list[str]]:
    """Time every prompt, shorter ones of a kind first; what went wrong ends the boot's measuring.

    Args:
        engine: healthy, and asked by nobody else.
        measure: the prompts, the tokens of a timed request, the seed of the prose, the rounds.
        cached: whether the engine has a prefix cache, whose hits then must be seen.
        depth: tokens drafted per step.
        tail: tokens at the end of every prompt.

    Returns:
        What was measured, and the problems; a boot with a problem is not compared.
    """
    found: list[PointMeasure] = []
    generate = measure.generate
    try:
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
            problems += part_steps(point, generate, rounds, depth) if measure.circle else []
            if problems:
                return found, problems
            found.append(point_measure(point, prompt, first, rounds))
    except GateError as error:
        kind = error.failure.name.lower() if isinstance(error, RequestFailedError) else type(error).__name__
        return found, [f"a request failed ({kind}): {error.in_one_line}"]
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


def part_steps(point: Point, generate: int, rounds: Sequence[Round], depth: int) -> list[str]:
    """Whether a round timed steps without a full draft as well: the engine has left its circle."""
    full = -(-(generate - 1) // (depth + 1))
    for again, whole in rounds:
        steps = steps_between(again, whole)
        if steps.value is None:
            return [f"{point.name}: whether drafts were full is not known: {steps.reason}"]
        if steps.value > full + STEPS_OVER:
            return [f"{point.name}: {steps.value:g} steps where full drafts need {full}: no circle was met"]
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
        # JSON carries lone surrogates, which a model may well generate and UTF-8 does not know.
        text_sha256=hashlib.sha256(whole.text.encode(errors="surrogatepass")).hexdigest(),
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
