"""A request timed step by step inside the engine's own process, for hosts without vLLM's server.

`POST /timed` of `ci.engine.inprocess` takes token ids and gives back when each engine step that brought
tokens ended. Nothing is turned into text: random weights generate bytes that are no text, for which vLLM's
detokenizer decodes the whole prompt anew with every token, which would be timed as the kernels' work.
FORKPROOF_SLOWDOWN makes every step longer by that share: an arm slowed on purpose.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import Any

SLOWDOWN_VARIABLE = "FORKPROOF_SLOWDOWN"
NUMBERS = itertools.count(1)


def encode(engine: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """The token ids of a text."""
    return {"tokens": list(engine.get_tokenizer().encode(asked["prompt"]))}


def timed(engine: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Generate greedily from token ids.

    Args:
        engine: vLLM's LLM, its engine core in this process.
        asked: `prompt` (token ids) and `max_tokens`.

    Returns:
        `steps`, each the seconds since the request and the tokens it brought; the tokens; and counts.
    """
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    params = SamplingParams(
        max_tokens=int(asked["max_tokens"]),
        temperature=0.0,
        ignore_eos=True,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )
    slowdown = float(os.environ.get(SLOWDOWN_VARIABLE, "0"))
    core = engine.llm_engine
    steps: list[tuple[float, int]] = []
    tokens: list[int] = []
    prompt_tokens, cached = 0, None
    prompt = {"type": "token", "prompt_token_ids": list(asked["prompt"])}
    begun = time.perf_counter()
    core.add_request(f"timed-{next(NUMBERS)}", prompt, params)
    while core.has_unfinished_requests():
        outputs = slowed_step(core, slowdown)
        now = time.perf_counter() - begun
        for output in outputs:
            new = list(output.outputs[0].token_ids)
            if not new:
                continue
            steps.append((now, len(new)))
            tokens += new
            prompt_tokens = len(output.prompt_token_ids or ())
            cached = output.num_cached_tokens if cached is None else cached
    return {
        "steps": steps,
        "tokens": tokens,
        "prompt_tokens": prompt_tokens,
        "cached_tokens": cached,
    }


def slowed_step(core: Any, share: float) -> Any:
    """One engine step, drawn out by a share of its own time without giving the processor away."""
    begun = time.perf_counter()
    outputs = core.step()
    until = time.perf_counter() + share * (time.perf_counter() - begun)
    while time.perf_counter() < until:
        pass
    return outputs
