from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from ci.stack.errors import DownloadError
from ci.stack.ranges import TAIL_BYTES, RangesRefusedError, RemoteFile, SparseFile, merge_spans

DATA = bytes(range(256)) * 1024
"""256 KiB in which every place is known by its value."""


@pytest.mark.parametrize(
    ("spans", "gap", "merged"),
    [
        ([(0, 10), (10, 20), (30, 40)], 0, [(0, 20), (30, 40)]),
        ([(30, 40), (0, 10), (12, 20)], 2, [(0, 20), (30, 40)]),
        ([(0, 50), (10, 20)], 0, [(0, 50)]),
        ([(0, 1), (5, 6), (10, 11)], 4, [(0, 11)]),
        ([], 9, []),
    ],
)
def test_neighbours_are_merged(spans: list[Any], gap: int, merged: list[Any]) -> None:
    """Spans that touch, overlap or nearly touch become one request."""
    assert merge_spans(spans, gap) == merged


def test_a_span_is_read_and_counted(serve: Callable[..., Any]) -> None:
    """The bytes asked for come, and they alone are counted."""
    server = serve(DATA)
    remote = RemoteFile(server.url)
    assert remote.size == len(DATA)
    assert remote.read((1000, 1010)) == DATA[1000:1010]
    assert (remote.counted.bytes, remote.counted.requests) == (11, 2)
    assert server.asked == ["bytes=0-0", "bytes=1000-1009"]


def test_a_server_without_ranges_is_noticed_at_once(serve: Callable[..., Any]) -> None:
    """A 200 to a range request means the whole file, and is its own signal."""
    server = serve(DATA, ranges=False)
    with pytest.raises(RangesRefusedError):
        RemoteFile(server.url)
    assert len(server.asked) == 1


def test_a_server_that_stops_serving_ranges_is_an_error(serve: Callable[..., Any]) -> None:
    """No byte of the wrong part is taken for the right one."""
    server = serve(DATA)
    remote = RemoteFile(server.url)
    server.ranges = False
    with pytest.raises(DownloadError, match="answered one range request and not the next"):
        remote.read((5, 10))


def test_broken_transfers_are_repeated(serve: Callable[..., Any]) -> None:
    """A 503 and an answer cut in the middle cost another request, not the build."""
    server = serve(DATA)
    remote = RemoteFile(server.url)
    server.fail, server.cut = [503], 1
    assert remote.read((100, 300)) == DATA[100:300]
    assert server.asked.count("bytes=100-299") == 3


def test_a_refusal_is_not_repeated(serve: Callable[..., Any]) -> None:
    """A 404 stays a 404; the error names the file and the status."""
    server = serve(DATA)
    server.fail = [404]
    with pytest.raises(DownloadError, match=r"vllm-9.9.9.*HTTP 404"):
        RemoteFile(server.url)
    assert len(server.asked) == 1


def test_the_sparse_file_reads_like_a_file(serve: Callable[..., Any]) -> None:
    """What was fetched is not fetched again; what is missing comes by itself; the ends are the file's."""
    server = serve(DATA)
    sparse = SparseFile(RemoteFile(server.url))
    before = len(server.asked)
    sparse.seek(-20, io.SEEK_END)
    assert sparse.read() == DATA[-20:]
    sparse.seek(len(DATA) - TAIL_BYTES)
    assert sparse.read(10) == DATA[len(DATA) - TAIL_BYTES :][:10]
    assert len(server.asked) == before
    assert sparse.prefetch([(0, 100), (100, 200), (100_000, 100_100)]) == 2
    sparse.seek(50)
    assert sparse.read(100) == DATA[50:150]
    assert sparse.tell() == 150
    assert len(server.asked) == before + 2
    assert sparse.read(100) == DATA[150:250]
    assert server.asked[-1] == "bytes=150-249"
    sparse.seek(len(DATA))
    assert sparse.read(5) == b""
