"""Holds GPU memory as an engine does, without the time that an engine takes: `holder.py PORT GIB [TRAIT...]`.

The process holds GIB of the GPU, and so does a worker of it that has left its session. It answers /health
once both hold it, unless it is `never-ready`. `worker` makes it the worker.
"""

from __future__ import annotations

import http.server
import subprocess
import sys
import time

HELD = b"held\n"
LIFE_S = 300.0


class Pages(http.server.BaseHTTPRequestHandler):
    """Health alone."""

    def do_GET(self) -> None:
        """200, or 503 for ever."""
        self.send_response(503 if "never-ready" in sys.argv else 200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
        """Stay quiet."""


def main() -> None:
    """Hold, and serve until ended."""
    import torch

    port, gib, *traits = sys.argv[1:]
    held = torch.empty(int(float(gib) * (1 << 30)), dtype=torch.uint8, device="cuda")
    held.fill_(1)
    torch.cuda.synchronize()
    if "worker" in traits:
        sys.stdout.buffer.write(HELD)
        sys.stdout.flush()
        time.sleep(LIFE_S)  # also when the engine is gone: a worker that somebody has to end
        return
    words = [sys.executable, __file__, port, gib, "worker"]
    worker = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
    if worker.stdout is None or worker.stdout.readline() != HELD:
        sys.exit("the worker could not take its memory")
    http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Pages).serve_forever()


if __name__ == "__main__":
    main()
