from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ci.stack.errors import DownloadError
from ci.stack.net import attempt, content_length, request


def test_the_length_of_a_file_without_reading_it(serve: Callable[..., Any]) -> None:
    """One HEAD request says it; an error status means that it is unknown, not 0."""
    server = serve(b"x" * 1234)
    assert content_length(server.url) == 1234
    server.fail = [405]
    assert content_length(server.url) is None


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/x.whl", "x.whl"])
def test_only_http_is_opened(url: str) -> None:
    """No other scheme is followed."""
    with pytest.raises(DownloadError, match="neither http nor https"):
        request(url)


def test_an_unreachable_server_is_named_without_credentials(serve: Callable[..., Any]) -> None:
    """The message gives host and file, never the secret of the URL."""
    tries = []

    def action() -> None:
        tries.append(1)
        raise OSError("no route")

    with pytest.raises(DownloadError, match="no route") as caught:
        attempt("https://user:secret@host/path/x.whl?token=1", action)
    assert "secret" not in str(caught.value)
    assert "token" not in str(caught.value)
    assert "host: x.whl" in str(caught.value)
    assert len(tries) == 4


@pytest.mark.parametrize("status", [401, 403, 407])
def test_missing_credentials_are_named_as_the_cause(status: int, serve: Callable[..., Any]) -> None:
    """A private index needs another way, and the remedy gives it."""
    server = serve(b"")
    server.fail = [status]
    with pytest.raises(DownloadError, match="credentials"):
        attempt(server.url, lambda: request(server.url))
