"""Streamed requests: what they measure, and every way in which they fail."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.engine.client import Failure, Piece, RequestFailedError, Streamed, read_stream, receive, stream
from tests.gate.engine.listener import played
from tests.gate.engine.streams import BAD, GOOD, event, joined, last, text

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
STEPS = joined(text("a b"), text("c d"), text("e", "length"), last(completion_tokens=5))


def pieces(data: bytes, cuts: list[int] | None = None) -> list[Piece]:
    """The stream in pieces, one second apart."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts or []), len(data)]
    cut = [data[begin:end] for begin, end in itertools.pairwise(edges)]
    return [Piece(float(at), piece) for at, piece in enumerate(cut, start=1)]


@pytest.mark.parametrize("name", GOOD)
def test_good_stream(name: str) -> None:
    """Chunks of text, text and the server's own count are read from every form of a stream."""
    data, chunks, words, tokens = GOOD[name]
    got = read_stream(0.0, pieces(data))
    assert (len(got.content_s), got.text, got.usage.completion_tokens) == (chunks, words, tokens)


@pytest.mark.parametrize("name", BAD)
def test_bad_stream(name: str) -> None:
    """A stream that shows a failure is no measurement, and says which failure it was."""
    data, kind = BAD[name]
    with pytest.raises(RequestFailedError) as caught:
        read_stream(0.0, pieces(data))
    assert caught.value.failure is Failure[kind]


@given(st.sampled_from([*GOOD, *BAD]), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_cut(name: str, cuts: list[int]) -> None:
    """However the stream is cut into reads, the outcome is the same."""
    data = GOOD[name][0] if name in GOOD else BAD[name][0]
    assert outcome(pieces(data, cuts)) == outcome(pieces(data))


def outcome(stream_pieces: list[Piece]) -> object:
    """Everything but the times."""
    try:
        got = read_stream(0.0, stream_pieces)
    except RequestFailedError as error:
        return str(error)
    return len(got.content_s), got.text, got.usage


def test_every_prefix_fails() -> None:
    """A stream that ends early at any byte is a failed request, never a shorter measurement."""
    for end in range(len(STEPS)):
        with pytest.raises(RequestFailedError):
            read_stream(0.0, pieces(STEPS[:end]))


def test_times() -> None:
    """Tokens are the server's, the time runs from the first text to the last: 5 tokens in 2 seconds."""
    events = [one + b"\n\n" for one in STEPS.split(b"\n\n")[:-1]]
    timed = [Piece(at, event) for at, event in zip((11.0, 12.0, 13.0, 20.0, 21.0), events, strict=True)]
    got = read_stream(10.0, timed)
    assert (got.ttft_s, got.decode_s, got.total_s, got.decode_tok_s) == (1.0, 2.0, 3.0, 2.5)


def test_cached_tokens() -> None:
    """Usage may say how much of the prompt came from the prefix cache."""
    known = last(prompt_tokens_details={"cached_tokens": 7})
    assert read_stream(0.0, pieces(joined(text("a"), known))).usage.cached_tokens == 7
    assert read_stream(0.0, pieces(joined(text("a"), last()))).usage.cached_tokens is None
    flag = last(prompt_tokens_details={"cached_tokens": True})
    assert read_stream(0.0, pieces(joined(text("a"), flag))).usage.cached_tokens is None


def test_one_chunk_has_no_rate() -> None:
    """Tokens that all came at once have no rate, rather than an infinite one."""
    got = read_stream(0.0, pieces(joined(text("all"), last())))
    assert got.decode_tok_s is None


def chunked(data: bytes, size: int) -> list[bytes]:
    """The body in HTTP chunks of at most `size` bytes."""
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_over_http(size: int) -> None:
    """The same request comes out of HTTP chunks of one byte and of the whole stream."""
    body = chunked(STEPS, size)
    with played(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *body, b"0\r\n\r\n") as url:
        got = stream(url, {})
    assert (got.text, len(got.content_s), got.usage.completion_tokens) == ("a bc de", 3, 5)


def test_closed_instead_of_counted() -> None:
    """A body without length that ends with the connection is read to its end."""
    with played(HEAD + b"Connection: close\r\n\r\n", STEPS) as url:
        assert stream(url, {}).text == "a bc de"


def failing(*parts: bytes, words: str | None = None, prompt: str = "", **how: Any) -> Failure:
    """The failure of a request that is answered like this, and told with these words."""
    limits = {name: how.pop(name) for name in ("idle_s", "deadline_s") if name in how}
    with played(*parts, **how) as url, pytest.raises(RequestFailedError, match=words) as caught:
        stream(url, {"prompt": prompt}, **limits)
    return caught.value.failure


def test_http_failures() -> None:
    """Cut, silent, slow, refused, of another status or kind: each is named."""
    whole = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    body = chunked(STEPS, 60)
    assert failing(whole, *body[:2]) is Failure.CUT
    assert failing(whole, *body[:2], body[2][:9]) is Failure.CUT
    assert failing(whole, *body[:2], hang_s=1.0, idle_s=0.2) is Failure.TIMED_OUT
    assert failing(whole, *body, b"0\r\n\r\n", gap_s=0.1, deadline_s=0.15) is Failure.TIMED_OUT
    assert failing(whole, hang_s=1.0, idle_s=0.2) is Failure.TIMED_OUT
    assert failing(hang_s=1.0, idle_s=0.2) is Failure.TIMED_OUT
    assert failing() is Failure.UNREACHABLE
    refused = b'HTTP/1.1 400 Bad Request\r\nContent-Length: 5\r\n\r\n{"a"}'
    assert failing(refused) is Failure.STATUS
    assert failing(refused, body=False, prompt="x" * 20_000_000) is Failure.STATUS  # before it has all come
    endless = (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", *[b"x"] * 50)
    begun = time.monotonic()
    assert failing(*endless, gap_s=0.1, idle_s=1.0) is Failure.STATUS
    assert time.monotonic() - begun < 2.0
    stalled = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 50\r\n\r\n"
    assert failing(stalled, hang_s=1.0, idle_s=0.2) is Failure.STATUS
    elsewhere = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /v1/completions\r\nContent-Length: 0\r\n\r\n"
    assert (
        failing(elsewhere, idle_s=0.5) is Failure.STATUS
    )  # a second request would be silent: nobody takes it
    plain = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    assert failing(plain) is Failure.NO_STREAM


DRIBBLED = {
    # name: what comes at once, what comes byte by byte
    "status": (b"HTTP/1.1 200 ", b"O" * 99),
    "headers": (HEAD, b"X-Pad: " + b"y" * 99),
    "interim": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 9),
    "chunk size": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0" * 99),
    "to the end": (HEAD + b"Connection: close\r\n\r\n" + STEPS, b"data: [DONE]\n\n" * 9),
}


@pytest.mark.parametrize("part", DRIBBLED)
def test_deadline(part: str) -> None:
    """It holds for every part of an answer, and a byte now and then does not put it off."""
    whole, dribbled = DRIBBLED[part]
    begun = time.monotonic()
    assert (
        failing(whole, *(b"%c" % byte for byte in dribbled), gap_s=0.05, idle_s=1.0, deadline_s=0.3)
        is Failure.TIMED_OUT
    )
    assert time.monotonic() - begun < 1.0


def test_the_deadline_counts_from_the_request() -> None:
    """Not from when the connection stood: what was late before is late at once, and it is said how late."""
    with played(HEAD, hang_s=1.0) as url:
        found, broken = receive(url, b"{}", time.perf_counter() - 5.0, idle_s=2.0, deadline_s=5.0)
    assert found == []
    assert broken is not None
    assert broken.failure is Failure.TIMED_OUT
    assert "0 pieces in 5 s" in str(broken)


@pytest.mark.parametrize(
    "how", [{"reset": True}, {"hang_s": 1.0, "idle_s": 0.2}, {"hang_s": 1.0, "deadline_s": 0.2}]
)
def test_an_error_before_the_cut(how: dict[str, Any]) -> None:
    """What a server said of its error before its connection broke is what is told."""
    said = (event(text("a")) + event({"error": {"message": "out of memory"}})).encode()
    head = HEAD + b"Content-Length: 999\r\n\r\n"
    assert failing(head, said, gap_s=0.1, words="out of memory", **how) is Failure.ERROR
    assert failing(head, said[:60], gap_s=0.1, **how) in (Failure.CUT, Failure.TIMED_OUT)


def test_nobody_listens() -> None:
    """A server that is gone is a failed request."""
    with pytest.raises(RequestFailedError) as caught:
        stream("http://127.0.0.1:9/v1/completions", {})
    assert caught.value.failure is Failure.UNREACHABLE


def test_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Usage, which a server leaves out otherwise; a prefill may be silent, and an answer take its time."""
    asked: list[bytes] = []

    def received(_url: str, payload: bytes, _asked_s: float, *limits: float) -> tuple[list[Piece], None]:
        asked.append(payload)
        assert limits == (120.0, 1800.0)
        return pieces(STEPS), None

    monkeypatch.setattr("ci.engine.client.receive", received)
    got = stream("http://x", {"prompt": [1], "max_tokens": 5})
    assert isinstance(got, Streamed)
    assert b'"stream_options": {"include_usage": true}' in asked[0]
    assert b'"prompt": [1]' in asked[0]
