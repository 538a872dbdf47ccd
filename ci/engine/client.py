"""A streamed completion of an OpenAI-compatible server: when its tokens came, and how many it counted.

While the stream runs, each piece is only kept with the moment of its arrival; events are read from the pieces
afterwards, so that reading them costs the measurement nothing.
"""

from __future__ import annotations

import enum
import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, NoReturn

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, ReadTimeoutError

from ci.engine.sse import Event, EventReader
from ci.errors import GateError

DONE = "[DONE]"
ERROR_EVENT = "error"
FAILED_FINISHES = ("error", "abort")
"""Reasons of an answer that the engine did not end by itself."""
STREAM_TYPE = "text/event-stream"
HEADERS = {"Content-Type": "application/json", "Accept": STREAM_TYPE}
READ_BYTES = 1 << 16
CONNECT_S = 10.0
IDLE_S = 120.0
"""Longest silence within a stream; a prefill of a long prompt says nothing all the while."""
DEADLINE_S = 1800.0
TEXT_FIELDS = ("content", "reasoning", "reasoning_content")
"""Channels of a chat delta that carry generated tokens; the last is the older name of the second."""


class Failure(enum.Enum):
    """Why a request is no measurement."""

    UNREACHABLE = "the server could not be reached"
    STATUS = "the server answered with another status than 200"
    NO_STREAM = "the answer is not a stream"
    ERROR = "the stream holds an error"
    BROKEN_EVENT = "an event of the stream cannot be read"
    CUT = "the stream was cut"
    NO_DONE = "the stream ended without [DONE]"
    NO_USAGE = "the stream says no usage"
    NO_CONTENT = "the stream holds no generated text"
    TIMED_OUT = "the stream took too long"


class RequestFailedError(GateError):
    """A request that failed; nothing of it may enter a throughput."""

    def __init__(self, failure: Failure, detail: str) -> None:
        super().__init__(
            f"{failure.value}: {detail}" if detail else failure.value,
            remedy="read the server's log at that time; the boot that it belongs to counts as invalid",
        )
        self.failure = failure


@dataclass(frozen=True)
class Usage:
    """What the server counted, over the whole request."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None
    """Prompt tokens from the prefix cache; None if the server does not say."""


@dataclass(frozen=True)
class Piece:
    """Bytes as they came."""

    at_s: float
    """`time.perf_counter`."""
    data: bytes


@dataclass(frozen=True)
class Streamed:
    """A request that succeeded."""

    asked_s: float
    content_s: tuple[float, ...]
    """When each chunk with generated text came. A chunk is a step, not a token."""
    usage: Usage
    text: str

    @property
    def ttft_s(self) -> float:
        """From the request to its first token."""
        return self.content_s[0] - self.asked_s

    @property
    def total_s(self) -> float:
        """From the request to its last token."""
        return self.content_s[-1] - self.asked_s

    @property
    def decode_s(self) -> float:
        """From the first token to the last."""
        return self.content_s[-1] - self.content_s[0]

    @property
    def decode_tok_s(self) -> float | None:
        """The server's count of tokens over the decode time; None where everything came in one chunk."""
        return self.usage.completion_tokens / self.decode_s if self.decode_s > 0 else None


def stream(
    url: str, body: Mapping[str, Any], idle_s: float = IDLE_S, deadline_s: float = DEADLINE_S
) -> Streamed:
    """Ask for a streamed completion and read it to its end.

    Args:
        url: `/v1/completions` or `/v1/chat/completions` of a server.
        body: the request, without `stream`; one choice.
        idle_s: longest silence.
        deadline_s: longest duration of the whole request, head and body, however its bytes come.

    Raises:
        RequestFailedError: with the kind of the failure; an error in what came before a cut is the failure.
    """
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
    payload = json.dumps(asked).encode()
    asked_s = time.perf_counter()
    return read_stream(asked_s, *receive(url, payload, asked_s, idle_s, deadline_s))


def receive(
    url: str, payload: bytes, asked_s: float, idle_s: float, deadline_s: float
) -> tuple[list[Piece], RequestFailedError | None]:
    """The pieces of the answer, each with its arrival, and what broke it off.

    Nothing is asked twice and no redirect is followed: one connection, one request.

    Raises:
        RequestFailedError: another status, or no stream.
    """
    pieces: list[Piece] = []
    broken: RequestFailedError | None = None
    late = threading.Event()
    where = urllib3.util.parse_url(url)
    with closing(HTTPConnection(where.host or "", where.port, timeout=CONNECT_S)) as connection:
        try:
            connection.connect()
            connection.timeout = idle_s
            with shut_down_at(asked_s + deadline_s, connection.sock, late):
                with suppress(BrokenPipeError, ConnectionResetError):  # a refusal may come before all is sent
                    connection.request("POST", where.request_uri, payload, HEADERS, preload_content=False)
                with closing(connection.getresponse()) as response:
                    if not late.is_set():  # else its head may be cut
                        check_head(response)
                    while piece := response.read1(READ_BYTES):
                        pieces.append(Piece(time.perf_counter(), piece))
        except (TimeoutError, ReadTimeoutError):
            broken = RequestFailedError(
                Failure.TIMED_OUT, f"silent for {idle_s:.0f} s after {len(pieces)} pieces"
            )
        except (OSError, HTTPException, HTTPError) as error:
            kind = Failure.CUT if pieces else Failure.UNREACHABLE
            broken = RequestFailedError(kind, f"{error!r} after {len(pieces)} pieces")
    if late.is_set():  # whatever it looked like, an end of the body among it
        broken = RequestFailedError(Failure.TIMED_OUT, f"{len(pieces)} pieces in {deadline_s:.0f} s")
    return pieces, broken


@contextmanager
def shut_down_at(at_s: float, connected: socket.socket, late: threading.Event) -> Iterator[None]:
    """Shut the socket down at a moment of `time.perf_counter`, and set `late` before.

    A timeout of the socket begins anew with every byte; this ends whatever waits for one. Its thread sleeps
    meanwhile, so that the measurement does not pay for it.
    """

    def shut_down() -> None:
        late.set()
        with suppress(OSError):  # it is closed already
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(at_s - time.perf_counter(), shut_down)
    timer.daemon = True  # an interruption right here must not wait for it
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # before the socket's number can be another one's


def check_head(response: urllib3.BaseHTTPResponse) -> None:
    """Refuse an answer that is no stream, with what it says."""
    kind = response.headers.get("Content-Type", "")
    if response.status == 200 and kind.partition(";")[0].strip().lower() == STREAM_TYPE:
        return
    said = ""
    with suppress(HTTPError):  # its body may be silent or cut: the head is what counts
        said = response.read1(2000).decode(errors="replace").strip()  # what is there: it may never end
    if response.status != 200:
        fail(Failure.STATUS, f"{response.status}: {said}")
    fail(Failure.NO_STREAM, f"Content-Type {kind!r}: {said}")


def read_stream(
    asked_s: float, pieces: Iterable[Piece], broken: RequestFailedError | None = None
) -> Streamed:
    """The request that these pieces answer; how the stream was cut into them makes no difference.

    Args:
        asked_s: when it was sent.
        pieces: in the order of their arrival.
        broken: what broke the answer off, if anything did; an error that the pieces hold goes before it.

    Raises:
        RequestFailedError: the stream shows that the request failed, or it was broken off.
    """
    reader = EventReader()
    content: list[float] = []
    words: list[str] = []
    usage: Usage | None = None
    done = False
    for piece in pieces:
        for event in reader.feed(piece.data):
            if event.name != ERROR_EVENT and not event.data.strip():
                continue
            if event.data.strip() == DONE:
                done = True
                continue
            chunk = parse_chunk(event)
            text, tokens, ended = generated(chunk)
            if ended in FAILED_FINISHES:
                fail(Failure.ERROR, f"finish_reason {ended} after {len(content)} chunks of text")
            if done:  # only an error still counts
                continue
            usage = usage_of(chunk) or usage
            if text or tokens:
                content.append(piece.at_s)
                words.append(text)
    if broken is not None:
        raise broken
    if not done:
        where = "in the middle of an event" if reader.unfinished else f"after {len(content)} chunks of text"
        fail(Failure.CUT if reader.unfinished else Failure.NO_DONE, where)
    if usage is None:
        fail(Failure.NO_USAGE, f"{len(content)} chunks of text; a chunk may hold several tokens")
    if not content:
        fail(Failure.NO_CONTENT, f"usage counts {usage.completion_tokens} tokens")
    return Streamed(asked_s, tuple(content), usage, "".join(words))


def parse_chunk(event: Event) -> dict[str, Any]:
    """The JSON object of one event, with choices or usage in it.

    Raises:
        RequestFailedError: it is none, or an error: by the event's name, by an `error` of any content, or
            because it holds nothing that a chunk holds, which is how the other shapes of errors look.
    """
    data = event.data
    if event.name == ERROR_EVENT:
        fail(Failure.ERROR, data[:500])
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError):
        chunk = None
    if not isinstance(chunk, dict):
        fail(Failure.BROKEN_EVENT, data[:200])
    no_chunk = not isinstance(chunk.get("choices"), list) and not isinstance(chunk.get("usage"), dict)
    if no_chunk or chunk.get("error") is not None or chunk.get("object") == "error":
        fail(Failure.ERROR, json.dumps(chunk)[:500])
    return chunk


def usage_of(chunk: Mapping[str, Any]) -> Usage | None:
    """The usage that a chunk carries. Running totals come on every chunk of some servers: the last counts."""
    said = chunk.get("usage")
    if not isinstance(said, dict):
        return None
    prompt, completion = said.get("prompt_tokens"), said.get("completion_tokens")
    if type(prompt) is not int or type(completion) is not int:
        return None
    details = said.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(prompt, completion, cached if type(cached) is int else None)


def generated(chunk: Mapping[str, Any]) -> tuple[str, Sequence[object], str | None]:
    """Text, token ids and finish reason of a chunk; roles and tool calls are no generated text.

    One choice is asked for, which has the index 0: those of another index are somebody else's.
    """
    choices = chunk.get("choices")
    found = choices if isinstance(choices, list) else []
    choice = next((one for one in found if isinstance(one, dict) and one.get("index", 0) == 0), None)
    if choice is None:
        return "", (), None
    delta = choice.get("delta")
    fields = [choice.get("text")]
    if isinstance(delta, dict):
        fields += [delta.get(name) for name in TEXT_FIELDS]
    text = "".join(one for one in fields if isinstance(one, str))
    tokens = choice.get("token_ids")
    finish = choice.get("finish_reason")
    return text, tokens if isinstance(tokens, list) else (), finish if isinstance(finish, str) else None


def fail(failure: Failure, detail: str) -> NoReturn:
    """Raise RequestFailedError."""
    raise RequestFailedError(failure, detail)
