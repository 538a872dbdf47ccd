"""A stream of completion chunks at a fixed pace, with the moments at which they were really sent.

`python -m ci.proof.played_stream STEPS STEP_S` prints its port, serves one request, then prints the moments
as JSON (`time.perf_counter`, which all processes of a Linux machine share).
"""

from __future__ import annotations

import json
import socket
import sys
import time

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)
CHUNK = {
    "id": "cmpl-0",
    "object": "text_completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "text": " several words of a step", "logprobs": None, "finish_reason": None}],
    "usage": None,
}
TOKENS_PER_STEP = 4


def event(payload: object) -> bytes:
    """One event as an HTTP chunk."""
    data = f"data: {payload if isinstance(payload, str) else json.dumps(payload)}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


def play(connection: socket.socket, steps: int, step_s: float) -> list[float]:
    """Send the chunks, each at its own time from the start; returns when each was sent."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    said = b""
    while b"\r\n\r\n" not in said:
        said += connection.recv(1 << 16)
    connection.sendall(HEAD)
    chunk, sent = event(CHUNK), []
    begun = time.perf_counter()
    for number in range(steps):
        while (left := begun + number * step_s - time.perf_counter()) > 0:
            time.sleep(left)
        sent.append(time.perf_counter())
        connection.sendall(chunk)
    usage = {"prompt_tokens": 9, "completion_tokens": steps * TOKENS_PER_STEP}
    connection.sendall(event({"choices": [], "usage": usage}) + event("[DONE]") + b"0\r\n\r\n")
    return sent


def main() -> None:
    """Serve one request."""
    steps, step_s = int(sys.argv[1]), float(sys.argv[2])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
        with connection:
            sent = play(connection, steps, step_s)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):  # what is unread would reset the connection
                pass
    print(json.dumps(sent), flush=True)


if __name__ == "__main__":
    main()
