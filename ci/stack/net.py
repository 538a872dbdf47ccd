"""HTTP with the standard library alone, as configured for pip: its certificates, the usual proxies.

Standard library only, because the sizes of an environment are asked for before
the environment exists.
"""

from __future__ import annotations

import functools
import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from ci.stack.errors import DownloadError

ATTEMPTS = 4
TIMEOUT_S = 60
BLOCK_BYTES = 1024 * 1024
BUNDLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
"""Variables that name a file of certificates, the first one set wins."""
BY_HAND = "download the wheel on another way into a folder, and set PIP_FIND_LINKS to that folder"

_PASSING = {408, 425, 429, 500, 502, 503, 504}
"""Statuses after which another attempt can succeed."""

T = TypeVar("T")


class RefusedError(Exception):
    """The server answered with an error status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


def request(
    url: str, *, method: str = "GET", span: tuple[int, int] | None = None
) -> http.client.HTTPResponse:
    """Open ``url``; the caller closes the response.

    Args:
        url: http or https.
        method: GET or HEAD.
        span: first byte and the byte after the last, asked for with a Range header.

    Raises:
        RefusedError: the status is an error.
        OSError, http.client.HTTPException: the transfer failed.
    """
    if urlsplit(url).scheme not in {"http", "https"}:
        raise DownloadError(f"{_shown(url)}: neither http nor https", remedy=BY_HAND)
    headers = {"User-Agent": "forkproof", "Accept-Encoding": "identity"}
    if span is not None:
        headers["Range"] = f"bytes={span[0]}-{span[1] - 1}"
    wanted = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310  # checked above
    try:
        response: http.client.HTTPResponse = _opener().open(wanted, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        with error:
            raise RefusedError(error.code) from error
    return response


def attempt(url: str, action: Callable[[], T]) -> T:
    """Run ``action`` again when the network, not the request, was at fault.

    Raises:
        DownloadError: it failed for good; the message names the host and the reason.
    """
    for turn in range(1, ATTEMPTS + 1):
        try:
            return action()
        except (RefusedError, OSError, http.client.HTTPException) as error:
            passing = error.status in _PASSING if isinstance(error, RefusedError) else True
            if turn == ATTEMPTS or not passing:
                raise DownloadError(
                    f"{_shown(url)}: {_reason(error)}", cause=_cause(error), remedy=BY_HAND
                ) from error
            time.sleep(0.5 * 2**turn)
    raise AssertionError("unreachable")


def content_length(url: str) -> int | None:
    """Size of the file at ``url`` in bytes, or None if the server does not say."""
    try:
        with request(url, method="HEAD") as response:
            length = response.headers.get("Content-Length", "")
    except (RefusedError, DownloadError, OSError, http.client.HTTPException):
        return None
    return int(length) if length.isdigit() else None


@functools.cache
def _opener() -> urllib.request.OpenerDirector:
    context = ssl.create_default_context()
    bundle = next((os.environ[name] for name in BUNDLES if os.environ.get(name)), None)
    if bundle and Path(bundle).is_file():
        context.load_verify_locations(cafile=bundle)
    return urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))


def _shown(url: str) -> str:
    """Host and file name, without credentials or query."""
    parts = urlsplit(url)
    return f"{parts.hostname or 'file'}: {parts.path.rpartition('/')[2]}"


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", "") or error) or type(error).__name__


def _cause(error: Exception) -> str | None:
    if isinstance(error, RefusedError) and error.status in {401, 403, 407}:
        return "the server wants credentials, and pip does not hand them on"
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return f"the server's certificate is not known here; {BUNDLES[0]} can name a file of certificates"
    return None
