"""A server of one request, for clients: it sends the bytes that it is told to."""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def played(
    *parts: bytes, gap_s: float = 0.0, hang_s: float = 0.0, reset: bool = False, body: bool = True
) -> Iterator[str]:
    """A server that answers one request with these bytes.

    Args:
        parts: what is sent.
        gap_s: silence after each part.
        hang_s: silence after all of them.
        reset: whether the connection then ends by a reset.
        body: whether the request's body is read first.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):  # a client that gives up closes before all is sent
            read_request(connection, body=body)
            for part in parts:
                connection.sendall(part)
                time.sleep(gap_s)
            time.sleep(hang_s)
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1/completions"
    listener.close()


def read_request(connection: socket.socket, *, body: bool) -> None:
    """All of it: a connection that is closed with bytes unread is reset, and may take the answer with it."""
    said = b""
    while b"\r\n\r\n" not in said:
        said += connection.recv(1 << 16)
    head, _, came = said.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while body and length and len(came) < int(length[1]):
        came += connection.recv(1 << 16)
