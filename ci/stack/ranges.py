"""Read parts of a remote file by HTTP range requests, neighbouring parts in one request."""

from __future__ import annotations

import io
import re
import threading
from bisect import bisect_right
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ci.stack.errors import DownloadError
from ci.stack.net import attempt, request
from ci.stack.progress import Progress, Silent

GAP_BYTES = 16 * 1024
"""Two parts closer than this are read in one request: the bytes between cost less than another request."""
TAIL_BYTES = 64 * 1024
"""Read first: the end record of a zip file stands within its last 64 KiB."""
PARALLEL = 4
"""Requests in flight at once."""

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")

Span = tuple[int, int]
"""First byte and the byte after the last."""


class RangesRefusedError(Exception):
    """The server sends the whole file, whatever is asked for."""


@dataclass
class Counted:
    """What was transferred."""

    bytes: int = 0
    requests: int = 0


class RemoteFile:
    """A file on a server that answers range requests."""

    def __init__(self, url: str) -> None:
        """Ask for the first byte, to learn the size and whether ranges are answered.

        Raises:
            RangesRefusedError: they are not.
            DownloadError: the server cannot be reached, or has no such file.
        """
        self.url = url
        self.counted = Counted()
        self._lock = threading.Lock()
        self.size = attempt(url, self._probe)

    def _probe(self) -> int:
        with request(self.url, span=(0, 1)) as response:
            match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
            if response.status != 206 or match is None:
                raise RangesRefusedError
            self._count(len(response.read()))
            return int(match[3])

    def read(self, span: Span) -> bytes:
        """The bytes of ``span``; safe to call from several threads.

        Raises:
            DownloadError: they cannot be had.
        """
        return attempt(self.url, lambda: self._read_once(span))

    def _read_once(self, span: Span) -> bytes:
        with request(self.url, span=span) as response:
            match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
            if response.status != 206 or match is None or int(match[1]) != span[0]:
                raise DownloadError(
                    "the server answered one range request and not the next",
                    cause="several servers behind one name, not all of which serve ranges",
                    remedy="try again",
                )
            data = response.read(span[1] - span[0])
            self._count(len(data))
        if len(data) != span[1] - span[0]:
            raise OSError(f"{len(data)} of {span[1] - span[0]} bytes came")
        return data

    def _count(self, amount: int) -> None:
        with self._lock:
            self.counted.bytes += amount
            self.counted.requests += 1


def merge_spans(spans: Iterable[Span], gap: int = GAP_BYTES) -> list[Span]:
    """Join spans that touch, overlap, or are at most ``gap`` bytes apart; sorted."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start - merged[-1][1] <= gap:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


class SparseFile(io.RawIOBase):
    """A seekable file over a remote one: holds what was fetched, fetches what is missing.

    ``zipfile`` reads the directory through it; the members come from ``prefetch``.
    """

    def __init__(self, remote: RemoteFile) -> None:
        self.remote = remote
        self._at = 0
        self._starts: list[int] = []
        self._blocks: dict[int, bytes] = {}
        self._keep((max(remote.size - TAIL_BYTES, 0), remote.size))

    def prefetch(self, spans: Iterable[Span], progress: Progress | None = None) -> int:
        """Fetch ``spans``, neighbours together, a few at a time.

        Returns:
            The number of requests.
        """
        progress = progress or Silent()
        merged = merge_spans(span for span in spans if self._held(*span) is None)
        progress.begin("reading the wheel by ranges", sum(end - start for start, end in merged))
        try:
            with ThreadPoolExecutor(PARALLEL) as pool:
                for span, data in zip(merged, pool.map(self.remote.read, merged), strict=True):
                    self._add(span[0], data)
                    progress.advance(len(data))
        finally:
            progress.end()
        return len(merged)

    def _keep(self, span: Span) -> None:
        self._add(span[0], self.remote.read(span))

    def _add(self, start: int, data: bytes) -> None:
        self._blocks[start] = max(self._blocks.get(start, b""), data, key=len)
        self._starts = sorted(self._blocks)

    def _held(self, start: int, end: int) -> bytes | None:
        """The bytes if one block has them all."""
        for index in range(bisect_right(self._starts, start) - 1, -1, -1):
            first = self._starts[index]
            block = self._blocks[first]
            if end <= first + len(block):
                return block[start - first : end - first]
        return None

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill ``buffer`` from the present position, as far as the file goes."""
        end = min(self._at + len(buffer), self.remote.size)
        if end <= self._at:
            return 0
        data = self._held(self._at, end)
        if data is None:
            self._keep((self._at, end))
            data = self._held(self._at, end) or b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.remote.size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at

    def seekable(self) -> bool:
        """It is."""
        return True

    def readable(self) -> bool:
        """It is."""
        return True
