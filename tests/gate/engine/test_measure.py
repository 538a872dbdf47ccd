"""The numbers of a prompt, and what makes its requests no measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
import pytest

from ci.engine.client import Failure, RequestFailedError, Streamed, Usage
from ci.engine.engines import Answer, served_answer
from ci.engine.measure import measure_points, median_round, soak, steps_between
from ci.engine.metrics import Growth, read_metrics
from ci.engine.profile import Measure, Point
from ci.results.throughput import Number, PointMeasure

POINT = Point("prose", 100)
PREFILL_S, STEP_S, TOKENS_PER_STEP = 2.0, 0.025, 3


@dataclass
class Scripted:
    """An engine of fixed times: a prefill unless cached, then a step per three tokens."""

    cached: bool = True
    change: dict[int, dict[str, object]] = field(default_factory=dict)
    """By the number of the request, from 0: fields of its answer that differ."""
    asked: list[tuple[int, int]] = field(default_factory=list)
    seen: list[list[int]] = field(default_factory=list)

    def encode(self, text: str) -> list[int]:
        """A byte is a token."""
        return list(text.encode())

    def tail(self) -> list[int]:
        """None."""
        return []

    def written(self, prompt: Sequence[int], max_tokens: int) -> list[int]:
        """Never asked for."""
        raise NotImplementedError

    def ask(self, prompt: Sequence[int], max_tokens: int) -> Answer:
        """The next answer."""
        number = len(self.asked)
        hit = self.cached and list(prompt) in self.seen
        self.seen.append(list(prompt))
        self.asked.append((len(prompt), max_tokens))
        first = 0.01 if hit else PREFILL_S
        steps = -(-(max_tokens - 1) // TOKENS_PER_STEP)
        answer = Answer(
            ttft_s=first,
            total_s=first + steps * STEP_S,
            chunks=steps + 1,
            prompt_tokens=len(prompt),
            completion_tokens=max_tokens,
            text="x" * max_tokens,
            iterations=Growth(float(steps + 1)),
            drafts=Growth(float(steps)),
            cached=Growth(96.0 if hit else 0.0),
        )
        changed = self.change.get(number, {})
        if "failure" in changed:
            raise RequestFailedError(Failure.NO_DONE, "after 3 chunks")
        return replace(answer, **changed)  # type: ignore[arg-type]


def measure(*points: Point, generate: int = 256, rounds: int = 1, circle: bool = False) -> Measure:
    """What to time; by default one prompt, once."""
    named = list(points or (POINT,))
    return Measure(("A", "B"), named, generate, "isolated_step_ms", rounds, circle=circle)


def test_numbers() -> None:
    """256 tokens in 85 steps of 25 ms, after a prefill of 2 s that no rate contains."""
    engine = Scripted()
    (point,), problems = measure_points(engine, measure(), cached=True, depth=2)
    assert problems == []
    assert engine.asked == [(100, 256), (100, 256), (100, 1), (100, 1), (100, 256)]
    assert (point.point, point.prompt_tokens, point.completion_tokens) == ("prose-100", 100, 256)
    assert (point.steps.value, point.drafts.value, point.chunks) == (85.0, 85.0, 86)
    decode_s = 85 * STEP_S
    assert point.step_ms.value == pytest.approx(25.0)
    assert point.decode_tok_s.value == pytest.approx(256 / decode_s)
    assert point.isolated_tok_s.value == pytest.approx(255 / decode_s)
    assert point.isolated_step_ms.value == pytest.approx(25.0)
    assert point.tokens_per_step.value == pytest.approx(3.0)
    assert point.prefill_ms.value == pytest.approx(2000.0)
    assert point.cached_tokens.value == 96.0


def test_without_prefix_cache() -> None:
    """The prefill stands in both requests and goes out of their difference, whatever the first one cost."""
    engine = Scripted(cached=False, change={1: {"ttft_s": 9.0, "total_s": 9.0}})
    (point,), problems = measure_points(engine, measure(), cached=False, depth=2)
    assert problems == []
    # Nothing is asked for the sake of a cache that is not there: it would be another whole prefill.
    assert engine.asked == [(100, 256), (100, 256), (100, 1), (100, 256)]
    assert point.prefill_ms.value == 9000.0
    assert point.isolated_tok_s.value == pytest.approx(255 / (85 * STEP_S))
    assert point.steps.value == 85.0


@pytest.mark.parametrize(
    ("number", "change", "words"),
    [
        (0, {"failure": 1}, "a request failed (no_done)"),
        (1, {"prompt_tokens": 99}, "counted 99 prompt tokens"),
        (4, {"prompt_tokens": 101}, "counted 101 prompt tokens"),
        (1, {"completion_tokens": 255}, "255 tokens were generated, not 256"),
        (3, {"completion_tokens": 2}, "2 tokens were generated, not 1"),
        (6, {"completion_tokens": 255}, "255 tokens were generated, not 256"),
        (3, {"cached": Growth(0.0)}, "unequal hits of the prefix cache: 0 and 96"),
        (4, {"cached": Growth(48.0)}, "unequal hits of the prefix cache: 96 and 48"),
        (6, {"cached": Growth(48.0)}, "unequal hits of the prefix cache: 96 and 48"),
        (4, {"cached": Growth(None, "no such counter")}, "could not be read: no such counter"),
        (2, {"failure": 1}, "a request failed (no_done)"),
        (4, {"failure": 1}, "a request failed (no_done)"),
    ],
)
def test_problems(number: int, change: dict[str, object], words: str) -> None:
    """A wrong count, an unproven hit of the prefix cache or a failed request: the boot is not compared."""
    points, problems = measure_points(
        Scripted(change={number: change}), measure(rounds=2), cached=True, depth=2
    )
    assert points == []
    assert words in problems[0]


def test_short_prompts_first() -> None:
    """What was measured before a failure is kept, and shorter prompts of a kind come first."""
    engine = Scripted(change={7: {"failure": 1}})
    points, problems = measure_points(
        engine, measure(Point("prose", 200), POINT, generate=4), cached=True, depth=2
    )
    assert [one.point for one in points] == ["prose-100"]
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"iterations": Growth(None, "began anew")}, "began anew"),
        ({"iterations": Growth(300.0)}, "299 decode steps cannot have given 256 tokens"),
        ({"iterations": Growth(1.0)}, "0 decode steps cannot have given 256 tokens"),
        ({"chunks": 87}, "87 pieces of text came in 85 decode steps"),
    ],
)
def test_steps_not_known(change: dict[str, object], reason: str) -> None:
    """Without a count of steps that can be true, whatever needs it is None, and the rest stays."""
    (point,), problems = measure_points(Scripted(change={4: change}), measure(), cached=True, depth=2)
    assert problems == []
    for number in (point.steps, point.step_ms, point.tokens_per_step, point.isolated_step_ms):
        assert number == Number(None, reason)
    assert point.decode_tok_s.value is not None


@pytest.mark.parametrize(("iterations", "steps"), [(1.0, None), (2.0, 1.0), (256.0, 255.0), (257.0, None)])
def test_steps_of_an_answer(iterations: float, steps: float | None) -> None:
    """At least one behind the first token, at most one for each token behind it."""
    engine = Scripted()
    again, whole = engine.ask(range(100), 1), engine.ask(range(100), 256)
    counted = replace(whole, chunks=2, iterations=Growth(iterations))
    assert steps_between(again, counted).value == steps


@pytest.mark.parametrize(
    ("generate", "request_no", "iterations", "words"),
    [
        # Of 256 tokens 255 come in 85 full steps of three, of 257 the last one is a step of its own.
        (256, 4, Growth(87.0), None),
        (256, 4, Growth(88.0), "87 steps where full drafts need 85: no circle was met"),
        (257, 4, Growth(88.0), None),
        (257, 4, Growth(89.0), "88 steps where full drafts need 86: no circle was met"),
        (257, 8, Growth(89.0), "88 steps where full drafts need 86: no circle was met"),
        (257, 8, Growth(None, "began anew"), "whether drafts were full is not known: began anew"),
    ],
)
def test_steps_behind_a_circle(generate: int, request_no: int, iterations: Growth, words: str | None) -> None:
    """In every round: with one step more than full drafts need it was found into, with two it was not met."""
    engine = Scripted(change={request_no: {"iterations": iterations}})
    asked = measure(generate=generate, rounds=3, circle=True)
    points, problems = measure_points(engine, asked, cached=True, depth=2)
    assert problems == ([] if words is None else [f"prose-100: {words}"])
    assert len(points) == (words is None)


def test_median_round() -> None:
    """Of several rounds one counts, so that a hiccup in another one moves nothing."""
    slow, quick = {"total_s": 99.0}, {"total_s": PREFILL_S}
    (point,), problems = measure_points(
        Scripted(change={4: slow, 8: quick}), measure(rounds=3), cached=True, depth=2
    )
    assert problems == []
    assert point.isolated_step_ms.value == pytest.approx(25.0)
    assert point.round_ms == pytest.approx((98_990.0, 2125.0, 1990.0))
    engine = Scripted()
    one, whole = engine.ask(range(100), 1), engine.ask(range(100), 9)
    rounds = [(one, replace(whole, total_s=total)) for total in (5.0, 3.0, 4.0)]
    assert median_round(rounds) == rounds[2]


def test_the_median_is_of_the_time_per_step() -> None:
    """Neither of the whole request nor of all its steps: those differ with its prefill and its drafts."""
    engine = Scripted()
    one, whole = engine.ask(range(100), 1), engine.ask(range(100), 256)
    rounds = [
        (
            replace(one, total_s=prefill_s),
            replace(whole, total_s=prefill_s + steps * step_s, iterations=Growth(steps + 1.0)),
        )
        for prefill_s, steps, step_s in ((3.0, 86, 0.025), (2.0, 110, 0.022), (1.0, 90, 0.03))
    ]
    assert median_round(rounds) == rounds[0]


def test_text_that_is_none() -> None:
    """A lone surrogate, which JSON can carry and UTF-8 cannot, ends neither the boot nor its file."""
    texts = [{4: {"text": text}} for text in ("\ud800", "\udfff")]
    found = [measure_points(Scripted(change=one), measure(), cached=True, depth=2) for one in texts]
    (first,), (second,) = (points for points, _ in found)
    assert first.text_sha256 != second.text_sha256
    assert msgspec.json.decode(msgspec.json.encode(first), type=PointMeasure) == first


def test_chunks_may_be_fewer() -> None:
    """Steps whose text came together in one chunk are still counted by the scheduler."""
    engine = Scripted()
    again, whole = engine.ask(range(100), 1), replace(engine.ask(range(100), 256), chunks=40)
    assert steps_between(again, whole) == Number(85.0)
    assert steps_between(replace(again, iterations=Growth(3.0)), whole) == Number(83.0)


def test_served_answer() -> None:
    """The cache's hits come from usage where it says them, else from the counter; no page, no counts."""
    page = 'vllm:iteration_tokens_total_count{engine="0"} %d\nvllm:prefix_cache_hits_total{engine="0"} %d\n'
    before, after = (read_metrics(page % numbers) for numbers in ((5, 100), (91, 196)))
    got = Streamed(10.0, (11.0, 12.0), Usage(100, 256, None), "text")
    answer = served_answer(got, before, after)
    assert (answer.ttft_s, answer.total_s, answer.decode_s, answer.chunks) == (1.0, 2.0, 1.0, 2)
    assert (answer.iterations.value, answer.cached.value, answer.drafts.value) == (86.0, 96.0, None)
    told = served_answer(replace(got, usage=Usage(100, 256, 64)), before, after)
    assert told.cached.value == 64.0
    assert served_answer(got, "500", after).iterations == Growth(None, "500")


def test_soak() -> None:
    """The GPU is kept at work until its time is over."""
    ticks = iter(range(100))
    assert soak(Scripted(), 3.0, clock=lambda: float(next(ticks))) == 2
