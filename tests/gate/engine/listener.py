"""A server of one request, for clients: it sends the bytes that it is told to."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def played(*parts: bytes, gap_s: float = 0.0, hang_s: float = 0.0) -> Iterator[str]:
    """A server that answers one request with these bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):  # a client that gives up closes before all is sent
            read_request(connection)
            for part in parts:
                connection.sendall(part)
                time.sleep(gap_s)
            time.sleep(hang_s)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1/completions"
    listener.close()


def read_request(connection: socket.socket) -> None:
    """All of it: a connection that is closed with bytes unread is reset, and takes the answer with it."""
    said = b""
    while b"\r\n\r\n" not in said:
        said += connection.recv(1 << 16)
    head, _, body = said.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while length and len(body) < int(length[1]):
        body += connection.recv(1 << 16)
