"""Plays recorded timings as an engine would: `player.py PORT PLAN`, PLAN being a JSON file.

Served like vLLM's server (/health, /metrics, /tokenize, streamed /v1/completions) and like the engine in one
process (/encode, /timed). The plan says: `log` (what it prints), `prefill_s`, `step_s`, `tokens_per_step`.
It may say `fault` (`no-done`, `error`, `no-usage`, `cut`, `no-cache`, `no-metrics`, `no-steps`, `short`),
`cut_bytes` (bytes of an HTTP chunk), `special_from` (the first step whose tokens are special), `boot_s` and
`sent` (a file that gets the moments at which steps were really sent).
"""

from __future__ import annotations

import http.server
import json
import sys
import time
from pathlib import Path
from typing import Any

PLAN: dict[str, Any] = {}
COUNTS = {"iterations": 0, "hits": 0, "queries": 0, "drafts": 0}
SEEN: list[list[int]] = []
BLOCK = 16


class Handler(http.server.BaseHTTPRequestHandler):
    """The pages of both kinds of engine."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Health, counters."""
        if self.path == "/metrics" and PLAN.get("fault") == "no-metrics":
            self.answer(500, "Internal Server Error")
        else:
            self.answer(200, metrics() if self.path == "/metrics" else "")

    def do_POST(self) -> None:
        """Token ids, a completion, or a request timed inside."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path in ("/tokenize", "/encode"):
            self.answer(200, json.dumps({"tokens": list(asked["prompt"].encode())}))
        elif self.path == "/timed":
            self.answer(200, json.dumps(timed(asked)))
        elif asked.get("stream"):
            self.stream(asked)
        else:
            self.answer(200, json.dumps({"choices": [{"text": "word"}]}))

    def stream(self, asked: dict[str, Any]) -> None:
        """A chunk per step, at its time."""
        begun = time.perf_counter()
        prompt, steps = asked["prompt"], steps_of(asked["prompt"], asked["max_tokens"])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        fault = PLAN.get("fault") if asked["max_tokens"] > 1 else None
        sent = []
        for number, (at, tokens) in enumerate(steps):
            time.sleep(max(0.0, begun + at - time.perf_counter()))
            sent.append(time.perf_counter())
            word = "word " if number < PLAN.get("special_from", len(steps)) or not skips(asked) else ""
            self.event({"choices": [{"index": 0, "text": word * tokens}]})
            if fault == "cut" and number == len(steps) // 2:
                self.wfile.write(b"5\r\ndata")
                self.close_connection = True
                return
            if fault == "error" and number == len(steps) // 2:
                self.event({"error": {"message": "engine died", "code": 500}})
        if "sent" in PLAN and asked["max_tokens"] > 1:
            with Path(PLAN["sent"]).open("a") as file:
                file.write(json.dumps(sent) + "\n")
        count = asked["max_tokens"] - (1 if fault == "short" else 0)
        if fault != "no-usage":
            self.event({"choices": [], "usage": {"prompt_tokens": len(prompt), "completion_tokens": count}})
        if fault != "no-done":
            self.chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, payload: object) -> None:
        """One event, cut into HTTP chunks as the plan says."""
        data = f"data: {json.dumps(payload)}\n\n".encode()
        size = PLAN.get("cut_bytes") or len(data)
        for at in range(0, len(data), size):
            self.chunk(data[at : at + size])

    def chunk(self, data: bytes) -> None:
        """One HTTP chunk."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def answer(self, status: int, body: str) -> None:
        """Send one answer."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
        """Stay quiet."""


def skips(asked: dict[str, Any]) -> bool:
    """Whether special tokens have no text, as by default."""
    return bool(asked.get("skip_special_tokens", True))


def steps_of(prompt: list[int], max_tokens: int) -> list[tuple[float, int]]:
    """When each step ends after the request, and its tokens; the counters move with it."""
    hit = 0
    if PLAN.get("fault") != "no-cache":
        hit = max((common(prompt, seen) for seen in SEEN), default=0) // BLOCK * BLOCK
        hit = min(hit, (len(prompt) - 1) // BLOCK * BLOCK)
    SEEN.append(prompt)
    at = float(PLAN["prefill_s"]) * (len(prompt) - hit) / len(prompt)
    steps, left = [(at, 1)], max_tokens - 1
    while left > 0:
        at += float(PLAN["step_s"])
        tokens = min(left, int(PLAN["tokens_per_step"]))
        steps.append((at, tokens))
        left -= tokens
    COUNTS["iterations"] += len(steps)
    COUNTS["drafts"] += len(steps) - 1
    COUNTS["hits"] += hit
    COUNTS["queries"] += len(prompt)
    return steps


def common(first: list[int], second: list[int]) -> int:
    """How many tokens two prompts begin with together."""
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length


def timed(asked: dict[str, Any]) -> dict[str, Any]:
    """A request whose steps are only told, not waited for."""
    hits = COUNTS["hits"]
    steps = steps_of(asked["prompt"], asked["max_tokens"])
    return {
        "steps": steps,
        "tokens": [7] * asked["max_tokens"],
        "prompt_tokens": len(asked["prompt"]),
        "cached_tokens": COUNTS["hits"] - hits,
    }


def metrics() -> str:
    """The counters as vLLM names them."""
    engine = '{engine="0",model_name="m"}'
    steps = f"vllm:iteration_tokens_total_count{engine} {COUNTS['iterations']}\n"
    return (
        "process_start_time_seconds 1.7e+09\n"
        f"{'' if PLAN.get('fault') == 'no-steps' else steps}"
        f"vllm:prefix_cache_queries_total{engine} {COUNTS['queries']}\n"
        f"vllm:prefix_cache_hits_total{engine} {COUNTS['hits']}\n"
        f"vllm:spec_decode_num_drafts_total{engine} {COUNTS['drafts']}\n"
        f'vllm:cache_config_info{{block_size="{BLOCK}",num_gpu_blocks="{PLAN.get("blocks", 10812)}"}} 1.0\n'
    )


def main() -> None:
    """Print the log, then serve."""
    PLAN.update(json.loads(Path(sys.argv[2]).read_text()))
    print(Path(PLAN["log"]).read_text(), end="", flush=True)
    time.sleep(PLAN.get("boot_s", 0.0))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        time.sleep(0.01)


if __name__ == "__main__":
    main()
