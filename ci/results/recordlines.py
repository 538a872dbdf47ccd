"""Lines of records, read strictly: split at the newline byte, decoded, checked, each key once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Generic, NoReturn, TypeAlias, TypeVar

import msgspec

from ci.errors import GateError
from ci.results.order import natural
from ci.results.records import SCHEMA_VERSION, BaselineHead, BaselineRecord, Record, RunHead, Scalar

MAX_LINE_BYTES = 1 << 18
MAX_NAME_CHARS = 500
_CHUNK_BYTES = 1 << 18
_ENCODE = msgspec.json.Encoder().encode
_BOM = b"\xef\xbb\xbf"
_SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")

AnyHead: TypeAlias = RunHead | BaselineHead
AnyRecord: TypeAlias = Record | BaselineRecord
H = TypeVar("H", RunHead, BaselineHead)
R = TypeVar("R", Record, BaselineRecord)


class RecordsError(GateError):
    """A results or baseline file that cannot be used."""


class RecordsEmptyError(RecordsError):
    """The file has no line at all."""


class TornRecordsError(RecordsError):
    """The last line stops in the middle: its writer was cut off."""


class MalformedRecordError(RecordsError):
    """A line that is no record of the published schema."""


class DuplicateRecordError(RecordsError):
    """Two lines for the same case and metric."""


class HeadError(RecordsError):
    """The head is missing, doubled, in the wrong place or of another schema."""


class UnorderedError(RecordsError):
    """The records are not in canonical order, so that they cannot be compared as they are read."""


@dataclass(frozen=True)
class Form(Generic[H, R]):
    """The two line types of one kind of file, and what to do when it is damaged."""

    head: type[H]
    record: type[R]
    decoder: msgspec.json.Decoder[AnyHead | AnyRecord]
    remedy: str


RESULTS_FORM = Form(
    RunHead,
    Record,
    msgspec.json.Decoder(RunHead | Record),
    "run the suite again: python -m ci run SUITE",
)
BASELINE_FORM = Form(
    BaselineHead,
    BaselineRecord,
    msgspec.json.Decoder(BaselineHead | BaselineRecord),
    "restore the file from git, or accept again: python -m ci accept --why TEXT",
)


def open_ordered(path: Path, stream: BinaryIO, form: Form[H, R]) -> tuple[H, Iterator[R]]:
    """Return head and records of a file in canonical order: a doubled key then needs no memory to be seen.

    Raises:
        UnorderedError: it is not, which only the iterator can tell.
    """
    return open_lines(path, stream, form, _Ascending(path))


def open_lines(
    path: Path, stream: BinaryIO, form: Form[H, R], keys: _Ascending | None = None
) -> tuple[H, Iterator[R]]:
    """Return the head and an iterator over the records of an open file; ``keys`` sees to doubled ones."""
    lines = _lines(path, stream, form)
    for number, line, torn in lines:
        head = _decode(path, number, line, torn, form)
        if not isinstance(head, form.head):
            raise HeadError(f"{path}:{number}: the first line is not a head", remedy=form.remedy)
        _check_head(path, number, head, form.remedy)
        return head, _records(path, lines, form, keys or _Seen())
    raise RecordsEmptyError(f"{path}: the file is empty", remedy=form.remedy)


class _Seen:
    """Remembers every key."""

    def __init__(self) -> None:
        self.keys: set[tuple[str, str]] = set()

    def repeats(self, case: str, metric: str) -> bool:
        """Take a key; tell whether it was there before."""
        before = len(self.keys)
        self.keys.add((case, metric))
        return len(self.keys) == before


class _Ascending:
    """Remembers the last key only, which suffices where keys ascend."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.case, self.metric = "", ""
        self.metric_order: tuple[str | int, ...] = ()

    def repeats(self, case: str, metric: str) -> bool:
        """Take a key; tell whether it is the last one again."""
        order = natural(metric)
        if case == self.case:
            ascends = self.metric_order < order or (self.metric_order == order and self.metric < metric)
            if not ascends and metric == self.metric:
                return True
        else:
            ascends = (natural(self.case), self.case) < (natural(case), case)
        if not ascends:
            behind = f"stands behind {self.case!r}, {self.metric!r}"
            raise UnorderedError(f"{self.path}: {case!r}, {metric!r} {behind}")
        self.case, self.metric, self.metric_order = case, metric, order
        return False


def _records(
    path: Path, lines: Iterator[tuple[int, bytes, bool]], form: Form[H, R], keys: _Seen | _Ascending
) -> Iterator[R]:
    kind = form.record
    for number, line, torn in lines:
        record = _decode(path, number, line, torn, form)
        if not isinstance(record, kind):
            raise HeadError(
                f"{path}:{number}: a second head",
                cause="two runs were written into one file",
                remedy=form.remedy,
            )
        if not _is_plain(record):
            _check_record(path, number, record, form.remedy)
        if keys.repeats(record.case, record.metric):
            raise DuplicateRecordError(
                f"{path}:{number}: case {record.case!r}, metric {record.metric!r} is recorded twice",
                remedy=form.remedy,
            )
        yield record


def _lines(path: Path, stream: BinaryIO, form: Form[H, R]) -> Iterator[tuple[int, bytes, bool]]:
    """Yield (line number from 1, content, whether its newline is absent), blank lines skipped."""
    number, rest = 0, b""
    while chunk := stream.read(_CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        for raw in whole:
            number += 1
            # Our own spelling has nothing around the braces, which saves a call for almost every line.
            own = raw[:1] == b"{" and raw[-1:] == b"}" and len(raw) <= MAX_LINE_BYTES
            line = raw if own else _strip(path, number, raw, form)
            if line:
                yield number, line, False
        if len(rest) > MAX_LINE_BYTES:
            break
    line = _strip(path, number + 1, rest, form)
    if line:
        yield number + 1, line, True


def _strip(path: Path, number: int, raw: bytes, form: Form[H, R]) -> bytes:
    if len(raw) > MAX_LINE_BYTES:
        _malformed(path, number, f"longer than {MAX_LINE_BYTES} bytes", form.remedy)
    return (raw.removeprefix(_BOM) if number == 1 else raw).strip(b" \t\r")


def _decode(path: Path, number: int, line: bytes, torn: bool, form: Form[H, R]) -> AnyHead | AnyRecord:
    try:
        decoded = form.decoder.decode(line)
    except msgspec.ValidationError as error:
        _malformed(path, number, str(error), form.remedy)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
        if b"\0" in line:
            cause = "the machine stopped while the file was written"
            _malformed(path, number, "NUL bytes", form.remedy, cause)
        if torn:
            raise TornRecordsError(
                f"{path}:{number}: the last line stops in the middle",
                cause="the run was killed while it wrote, or the file was truncated",
                remedy=form.remedy,
            ) from error
        _malformed(path, number, str(error), form.remedy)
    if _ENCODE(decoded) != line:  # not our own spelling: look closer
        refuse_doubled_keys(path, number, line, form.remedy)
    return decoded


def refuse_doubled_keys(path: Path, number: int, line: bytes, remedy: str) -> None:
    """Raise if an object of the line gives a key twice, of which a parser keeps only the last."""

    def hook(pairs: list[tuple[str, object]]) -> dict[str, object]:
        keys = [key for key, _ in pairs]
        for key in keys:
            if keys.count(key) > 1:
                _malformed(path, number, f"key {key!r} is given twice in one object", remedy)
        return dict(pairs)

    json.loads(line, object_pairs_hook=hook)


def _check_head(path: Path, number: int, head: AnyHead, remedy: str) -> None:
    if head.schema != SCHEMA_VERSION:
        raise HeadError(
            f"{path}:{number}: schema {head.schema}, this gate reads schema {SCHEMA_VERSION}", remedy=remedy
        )
    for word, value in (("lane", head.lane), ("suite", head.suite)):
        if not is_slug(value):
            _malformed(path, number, f"{word} {value[:80]!r} is not of a-z, 0-9, '.', '_', '-'", remedy)
    for name, condition in head.conditions.items():
        _check_scalar(path, number, f"condition {name!r}", condition, remedy)
    if isinstance(head, RunHead):
        if parse_utc(head.started) is None:
            _malformed(path, number, f"started {head.started[:80]!r} is no RFC 3339 time in UTC", remedy)
        if not head.run:
            _malformed(path, number, "run has no identifier", remedy)


def _check_record(path: Path, number: int, record: AnyRecord, remedy: str) -> None:
    if not (_is_name(record.case) and _is_name(record.metric)):
        word = "metric" if _is_name(record.case) else "case"
        _malformed(path, number, f"{word} is empty, too long or has control characters", remedy)
    _check_scalar(path, number, "value", record.value, remedy)
    if record.value is None and not record.reason:
        _malformed(path, number, "value is null without a reason", remedy)


def _is_plain(record: AnyRecord) -> bool:
    """Tell whether a record needs no closer look: most do not, and a look costs more than the decoding."""
    case, metric, value = record.case, record.metric, record.value
    return (
        0 < len(case) <= MAX_NAME_CHARS
        and 0 < len(metric) <= MAX_NAME_CHARS
        and case.isprintable()
        and metric.isprintable()
        and value is not None
        and (type(value) is not int or -(1 << 63) <= value < 1 << 63)
    )


def _is_name(text: str) -> bool:
    # Most names are printable, which is told much faster than what the pattern asks.
    return 0 < len(text) <= MAX_NAME_CHARS and (text.isprintable() or _CONTROL_CHARACTER.search(text) is None)


def _check_scalar(path: Path, number: int, word: str, value: Scalar, remedy: str) -> None:
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        _malformed(path, number, f"{word} does not fit into 64 bits", remedy)


def is_slug(name: str) -> bool:
    """Tell whether ``name`` can be a lane or suite, which become parts of paths."""
    return _SLUG.fullmatch(name) is not None


def parse_utc(text: str) -> datetime | None:
    """Return the RFC 3339 time ``text`` if it is one and in UTC, else None."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.utcoffset() == timedelta(0) else None


def _malformed(path: Path, number: int, what: str, remedy: str, cause: str | None = None) -> NoReturn:
    raise MalformedRecordError(f"{path}:{number}: {what}", cause=cause, remedy=remedy)
