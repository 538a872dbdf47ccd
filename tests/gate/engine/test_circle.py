"""Prompts that end in the circle in which an engine writes, and boots that leave it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from ci.engine.abba import SessionError
from ci.engine.circle import CIRCLE_FILE, CIRCLE_TOKENS, CIRCLE_WORDS, circle, kept_circle
from ci.engine.engines import InProcessEngine, ServedEngine
from ci.engine.measure import measure_points
from ci.engine.profile import Measure, Point
from ci.engine.server import Server, ServerError
from ci.results.throughput import PointMeasure

OWN_WORDS = 25
"""Tokens that the engine writes before it goes round."""


@dataclass
class Circling:
    """A server whose engine writes words of its own and then goes round in a circle of three tokens.

    It accepts full drafts behind that circle and short ones elsewhere, as an n-gram drafter gets them.
    """

    short_rounds: tuple[int, ...] = ()
    """Requests for many tokens, counted from 0, in which steps are short all the same."""
    writes: int = 1000
    """So many tokens at most."""
    says: object = None
    """What it answers a completion, unless it is None."""
    asked: list[list[int]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def post(self, page: str, asked: dict[str, Any], _deadline_s: float = 0.0) -> Any:
        """The pages of an engine in one process, and a completion."""
        if page in ("/encode", "/tokenize"):
            return {"tokens": list(asked["prompt"].encode())}
        self.bodies.append(asked)
        prompt, count = asked["prompt"], min(asked["max_tokens"], self.writes)
        tokens = [200 + number if number < OWN_WORDS else number % 3 for number in range(count)]
        if page == "/v1/completions":
            return {"choices": [{"text": "", "token_ids": tokens}]} if self.says is None else self.says
        self.asked.append(prompt)
        many = sum(body["max_tokens"] > 200 for body in self.bodies) - 1
        full = set(prompt[-CIRCLE_TOKENS:]) == {0, 1, 2} and not (count > 200 and many in self.short_rounds)
        each = 8 if full else 3
        steps = [(0.01, 1), *((0.02 + at / 1e3, min(each, count - at)) for at in range(1, count, each))]
        return {"steps": steps, "tokens": tokens, "prompt_tokens": len(prompt), "cached_tokens": 0}


def measure(*points: Point, rounds: int = 1) -> Measure:
    """What to time."""
    return Measure(("A", "B"), list(points), 256, "isolated_step_ms", rounds, circle=True)


def timed(server: Circling, asking: Measure) -> tuple[list[PointMeasure], list[str]]:
    """Every prompt, behind the engine's own circle."""
    engine = InProcessEngine(cast(Server, server))
    tail = circle(engine, asking.seed + 2)
    return measure_points(engine, asking, cached=False, depth=7, tail=tail)


def test_all_prompts_end_in_it() -> None:
    """Those that are timed and the words before them; so every step verifies a full draft."""
    server = Circling()
    points, problems = timed(server, measure(Point("prose", 400), Point("prose", 600)))
    assert problems == []
    assert [one.steps.value for one in points] == [32, 32]
    shown, *prompts = server.asked
    assert len(shown) == CIRCLE_WORDS == 256
    assert {len(prompt) for prompt in prompts} == {400, 600}
    (tail,) = {tuple(prompt[-32:]) for prompt in prompts}
    assert set(tail) == {0, 1, 2}
    assert len({tuple(prompt[:100]) for prompt in server.asked}) == 3  # shown, other words, timed


def test_the_hash_covers_the_tokens() -> None:
    """Two prompts of one length are told apart."""
    engine = InProcessEngine(cast(Server, Circling()))
    hashes = []
    for tail in ([1, 2], [2, 1]):
        one = Measure(("A", "B"), [Point("prose", 400)], 256, "isolated_step_ms")
        (point,), _ = measure_points(engine, one, cached=False, depth=7, tail=tail)
        hashes.append(point.prompt_sha256)
    assert hashes[0] != hashes[1]


@pytest.mark.parametrize(
    ("short", "words"),
    [((0, 1), []), ((2,), ["prose-400: 85 steps where full drafts need 32: no circle was met"])],
)
def test_any_round_with_part_drafts_is_noticed(short: tuple[int, ...], words: list[str]) -> None:
    """Not only the median one. Which drafts the untimed requests get is their own business."""
    points, problems = timed(Circling(short), measure(Point("prose", 400), rounds=3))
    assert problems == words
    assert len(points) == 1 - len(words)


@pytest.mark.parametrize(("steps", "found"), [(32, 0), (33, 0), (34, 1)])
def test_one_step_more_is_allowed(steps: int, found: int) -> None:
    """An engine has to find into the circle."""

    class Slower(Circling):
        def post(self, page: str, asked: dict[str, Any], _deadline_s: float = 0.0) -> Any:
            said = super().post(page, asked)
            if page == "/timed" and asked["max_tokens"] == 256:
                said["steps"] = [(0.01, 1), *((0.02 + n / 1e3, 7) for n in range(steps - 1))]
                said["steps"].append((1.0, 255 - 7 * (steps - 1)))
            return said

    assert len(timed(Slower(), measure(Point("prose", 400)))[1]) == found


def test_without_a_count_of_steps_nothing_is_full() -> None:
    """What cannot be read is no full draft."""

    class Merging(Circling):
        def post(self, page: str, asked: dict[str, Any], _deadline_s: float = 0.0) -> Any:
            said = super().post(page, asked)
            if page == "/timed":
                said["steps"] = [(0.01, asked["max_tokens"])]
            return said

    (problem,) = timed(Merging(), measure(Point("prose", 400)))[1]
    assert problem.startswith("prose-400: whether drafts were full is not known: 0 decode steps")


def test_a_server_shows_what_it_writes() -> None:
    """As token ids beside the text, greedily, beyond the end of an answer."""
    server = Circling()
    assert len(circle(ServedEngine(cast(Server, server)), 1)) == CIRCLE_TOKENS
    (body,) = server.bodies
    assert (body["temperature"], body["ignore_eos"], body["return_token_ids"]) == (0, True, True)
    assert (len(body["prompt"]), body["max_tokens"]) == (256, 64)


@pytest.mark.parametrize(
    "says",
    [{"choices": [None]}, {"choices": []}, {"choices": [{"text": "word"}]}, {"error": "no such model"}],
)
def test_a_server_that_does_not(says: object) -> None:
    """Its own words are shown, and what to do."""
    with pytest.raises(ServerError) as caught:
        circle(ServedEngine(cast(Server, Circling(says=says))), 1)
    assert str(says) in caught.value.what
    assert caught.value.remedy is not None


def test_too_little_written() -> None:
    """What was written before the circle would stand at the end of prompts."""
    with pytest.raises(ServerError, match="the engine wrote 10 tokens of 64"):
        circle(InProcessEngine(cast(Server, Circling(writes=10))), 1)


def test_one_circle_per_session(tmp_path: Path) -> None:
    """The first engine's, so that arms that write differently are asked the same; damage is named."""
    server = Circling()
    first = kept_circle(tmp_path, InProcessEngine(cast(Server, server)), 1)
    assert kept_circle(tmp_path, InProcessEngine(cast(Server, Circling(writes=1))), 1) == first
    assert len(server.asked) == 1
    for damage in ("", "[]", '["a"]', "[1"):
        (tmp_path / CIRCLE_FILE).write_text(damage)
        with pytest.raises(SessionError, match="does not hold token ids"):
            kept_circle(tmp_path, InProcessEngine(cast(Server, server)), 1)
