"""An engine in one process, behind the few pages that a harness asks a server for.

`python -m ci.engine.inprocess PORT WORDS...` takes the words of `vllm serve`. It is for hosts that lack what
a server needs, and for boots of which exact numbers are wanted: `/exact` gives the engine's own bytes and the
breach state. With FORKPROOF_BREAK it boots with a deliberate break in place (see `ci/engine/breaks.py`).
"""

from __future__ import annotations

import http.server
import json
import os
import sys
from typing import Any

from ci.engine.timed import SLOWDOWN_VARIABLE, encode, timed

HOST = "127.0.0.1"
BREAK_VARIABLE = "FORKPROOF_BREAK"
READS = frozenset({BREAK_VARIABLE, SLOWDOWN_VARIABLE})
"""Variables that make an engine another one here, and that vLLM's server does not know."""


def make_engine(words: list[str]) -> Any:
    """vLLM's LLM, from the words of its server's command line."""
    from vllm import LLM
    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    return LLM.from_engine_args(EngineArgs.from_cli_args(parser.parse_args(["--model", *words])))


def exact_of(worker: Any) -> dict[str, Any]:
    """Numbers of one worker, in bytes; None for what this vLLM does not keep."""
    worker = getattr(worker, "worker", worker)
    runner = worker.model_runner
    return {
        "available_kv_bytes": plain(getattr(worker, "available_kv_cache_memory_bytes", None)),
        "model_load_bytes": plain(getattr(runner, "model_memory_usage", None)),
        "num_gpu_blocks": plain(worker.cache_config.num_gpu_blocks),
        "block_size": plain(worker.cache_config.block_size),
        "ubatching": plain(getattr(getattr(worker, "parallel_config", None), "use_ubatching", None)),
        "breach": breach_state(),
    }


def plain(value: Any) -> int | None:
    """A number that JSON can carry."""
    return None if value is None else int(value)


def breach_state() -> dict[str, Any] | None:
    """The arm's breach state; None in an arm that keeps none."""
    from vllm.v1.attention.ops import int4_per_token_head as launcher

    state_of = getattr(launcher, "mq3d_breach_state", None)
    if state_of is None:
        return None
    state = state_of()
    first = state.first
    return {
        "count": state.count,
        "degraded": state.degraded,
        "first": None if first is None else {"tokens": first.tokens, "declared": first.declared},
    }


def metrics_of(exact: dict[str, Any]) -> str:
    """The line of /metrics that describes the KV cache."""
    labels = f'block_size="{exact["block_size"]}",num_gpu_blocks="{exact["num_gpu_blocks"]}"'
    return f"vllm:cache_config_info{{{labels}}} 1.0\n"


def generate(engine: Any, asked: dict[str, Any]) -> str:
    """The text that the engine generates for one prompt, or for several at once."""
    from vllm import SamplingParams

    params = SamplingParams(
        max_tokens=int(asked.get("max_tokens", 16)),
        temperature=float(asked.get("temperature", 0)),
        ignore_eos=bool(asked.get("ignore_eos", False)),
    )
    outputs = engine.generate(prompts_of(asked["prompt"]), params, use_tqdm=False)
    # Random weights may well generate bytes that are no text: tokens are an answer all the same.
    return "".join(one.outputs[0].text or f"<{len(one.outputs[0].token_ids)} tokens>" for one in outputs)


def prompts_of(asked: Any) -> list[Any]:
    """The prompts of a request, as vLLM's server takes them: a text, token numbers, or a list of either."""
    several = isinstance(asked, list) and asked and not isinstance(asked[0], int)
    prompts = asked if several else [asked]
    return [{"prompt_token_ids": one} if isinstance(one, list) else one for one in prompts]


def pages(engine: Any) -> type[http.server.BaseHTTPRequestHandler]:
    """The handler of this engine's requests, one at a time."""

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Health, metrics, exact numbers."""
            exact = engine.collective_rpc(exact_of)[0] if self.path != "/health" else {}
            body = {
                "/health": "",
                "/metrics": metrics_of(exact) if exact else "",
                "/exact": json.dumps(exact),
            }
            self.answer(200 if self.path in body else 404, body.get(self.path, ""))

        def do_POST(self) -> None:
            """A completion, a request timed by its steps, or the token ids of a text."""
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            if self.path == "/timed":
                self.answer(200, json.dumps(timed(engine, asked)))
            elif self.path == "/encode":
                self.answer(200, json.dumps(encode(engine, asked)))
            else:
                self.answer(200, json.dumps({"choices": [{"text": generate(engine, asked)}]}))

        def answer(self, status: int, body: str) -> None:
            """Send one answer."""
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
            """The log is the engine's."""

    return Pages


def main() -> None:
    """Boot, then answer until told to stop."""
    port, *words = sys.argv[1:]
    name = os.environ.get(BREAK_VARIABLE)
    if name:
        from ci.engine.breaks import BREAKS

        BREAKS[name]()
    engine = make_engine(words)
    print("in-process engine: ready", flush=True)
    try:
        http.server.HTTPServer((HOST, int(port)), pages(engine)).serve_forever()
    except KeyboardInterrupt:
        print("in-process engine: told to stop", flush=True)


if __name__ == "__main__":
    main()
