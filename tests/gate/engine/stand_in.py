"""Behaves like an engine as far as a harness can see it: `stand_in.py PORT LOG [TRAIT...]`.

It prints the lines of LOG, answers /health, /metrics and /v1/completions, and has one worker. Traits:
`deaf` (ignores SIGINT and SIGTERM, worker too), `escapes` (the worker leaves the session), `never-ready`,
`oom` (prints the lines, then a trace, and ends with 1), `dies` (ends with 1 after the lines), `mute`
(answers with an empty choice list), `skips` (answers so to prompts of nine tokens).
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

WORKER = """
import signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN if "deaf" in sys.argv else signal.SIG_DFL)
time.sleep(120)
"""
METRICS = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="10812"} 1.0\n'
OOM = "(EngineCore pid=9) ERROR 01-02 03:04:05 [core.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried"


class Handler(http.server.BaseHTTPRequestHandler):
    """The few pages that a harness asks for."""

    def do_GET(self) -> None:
        """Health and metrics."""
        ready = "never-ready" not in sys.argv
        self.answer(200 if ready else 503, METRICS if self.path == "/metrics" else "")

    def do_POST(self) -> None:
        """A completion that repeats nothing."""
        # Read in any case: a client that still sends would see a reset.
        prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["prompt"]
        mute = "mute" in sys.argv or ("skips" in sys.argv and len(prompt[0]) == 9)
        choices = [] if mute else [{"text": "word"}]
        self.answer(200, json.dumps({"choices": choices}))

    def answer(self, status: int, body: str) -> None:
        """Send one answer."""
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
        """Stay quiet."""


def main() -> None:
    """Boot, and serve until told to stop."""
    port, log, *traits = sys.argv[1:]
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, *traits],
        stderr=subprocess.DEVNULL,  # it may be told to stop while it still starts
        start_new_session="escapes" in traits,
    )
    Path(f"{log}.pids").write_text(f"{os.getpid()} {worker.pid}")
    if "deaf" in traits:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    print(Path(log).read_text(), end="", flush=True)
    if "oom" in traits:
        print(OOM, flush=True)
    if {"oom", "dies"} & set(traits):
        sys.exit(1)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
