"""Requests timed inside the engine's process, with a stand-in for vLLM's objects."""

from __future__ import annotations

import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ci.engine.engines import timed_answer
from ci.engine.timed import SLOWDOWN_VARIABLE, encode, timed

STEP_S = 0.004


class Core:
    """An engine that gives one token, then two per step; its second step gives nothing."""

    def __init__(self, tokens: int) -> None:
        self.left = tokens
        self.calls = 0
        self.asked: list[Any] = []

    def add_request(self, name: str, prompt: dict[str, Any], params: Any) -> None:
        """Keep what was asked."""
        self.asked.append((name, prompt, params))

    def has_unfinished_requests(self) -> bool:
        """Whether tokens are left."""
        return self.left > 0

    def step(self) -> list[Any]:
        """The next tokens."""
        time.sleep(STEP_S)
        self.calls += 1
        if self.calls == 2:
            return []
        new = min(self.left, 1 if self.calls == 1 else 2)
        self.left -= new
        said = SimpleNamespace(token_ids=[5] * new)
        return [SimpleNamespace(outputs=[said], prompt_token_ids=[1, 2, 3], num_cached_tokens=2)]


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much of vLLM as the module imports."""
    vllm, params = ModuleType("vllm"), ModuleType("vllm.sampling_params")
    vllm.SamplingParams = lambda **given: given  # type: ignore[attr-defined]
    params.RequestOutputKind = SimpleNamespace(DELTA="delta")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", params)


def run(tokens: int) -> tuple[dict[str, Any], Core]:
    """One request."""
    core = Core(tokens)
    return timed(SimpleNamespace(llm_engine=core), {"prompt": [1, 2, 3], "max_tokens": tokens}), core


def test_steps() -> None:
    """Steps that gave tokens are listed with their tokens; greedy, and no early end of the text."""
    said, core = run(6)
    assert [tokens for _, tokens in said["steps"]] == [1, 2, 2, 1]
    assert [at for at, _ in said["steps"]] == sorted(at for at, _ in said["steps"])
    assert said["steps"][0][0] >= STEP_S
    assert said["steps"][1][0] >= 3 * STEP_S
    assert core.asked[0][1] == {"type": "token", "prompt_token_ids": [1, 2, 3]}
    assert core.asked[0][2] == {
        "max_tokens": 6,
        "temperature": 0.0,
        "ignore_eos": True,
        "detokenize": False,
        "output_kind": "delta",
    }
    answer = timed_answer(said)
    assert (answer.prompt_tokens, answer.completion_tokens, answer.chunks) == (3, 6, 4)
    assert (answer.iterations.value, answer.cached.value, answer.drafts.value) == (4.0, 2.0, None)


def test_slowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slowdown of 100% makes every step take at least twice as long."""
    monkeypatch.setenv(SLOWDOWN_VARIABLE, "1.0")
    said, _ = run(3)
    assert said["steps"][0][0] >= 2 * STEP_S


def test_encode() -> None:
    """Token ids come from the engine's tokenizer."""
    tokenizer = SimpleNamespace(encode=lambda text: list(text.encode()))
    assert encode(SimpleNamespace(get_tokenizer=lambda: tokenizer), {"prompt": "ab"}) == {"tokens": [97, 98]}
