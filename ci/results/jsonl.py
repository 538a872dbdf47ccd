"""Results and baselines as JSON lines: strict reading, canonical writing.

Lines are split at the newline byte only, so that no character inside a text can
end a record.  Whatever a lenient reader would repair in silence (a torn last
line, a key given twice, NaN) is an error here that names file and line.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from ci.errors import GateError
from ci.results.files import open_plain, write_atomic
from ci.results.order import key_order, natural, record_order
from ci.results.recordlines import (
    BASELINE_FORM,
    MAX_LINE_BYTES,
    RESULTS_FORM,
    AnyHead,
    AnyRecord,
    DuplicateRecordError,
    Form,
    HeadError,
    MalformedRecordError,
    RecordsEmptyError,
    RecordsError,
    TornRecordsError,
    UnorderedError,
    is_slug,
    open_lines,
    open_ordered,
    parse_utc,
    refuse_doubled_keys,
)
from ci.results.records import BaselineHead, BaselineRecord, Record, RunHead

__all__ = [
    "BASELINE_FORM",
    "MAX_FILE_BYTES",
    "MAX_LINE_BYTES",
    "RESULTS_FORM",
    "Baseline",
    "DuplicateRecordError",
    "Form",
    "HeadError",
    "MalformedRecordError",
    "Records",
    "RecordsEmptyError",
    "RecordsError",
    "Results",
    "TornRecordsError",
    "UnorderedError",
    "UnwritableRecordError",
    "encode",
    "is_slug",
    "key_order",
    "natural",
    "open_baseline",
    "open_ordered",
    "open_results",
    "parse_utc",
    "read_baseline",
    "read_results",
    "record_order",
    "refuse_doubled_keys",
    "write_baseline",
    "write_results",
]

MAX_FILE_BYTES = 1 << 30
"""A million records take about 150 MiB; the rest is room, not an aim."""
R_co = TypeVar("R_co", Record, BaselineRecord, covariant=True)


class UnwritableRecordError(GateError):
    """A value that JSON cannot hold exactly."""


class Records(Protocol[R_co]):
    """Records that can be counted and gone through, more than once; not every file fits into memory."""

    def __iter__(self) -> Iterator[R_co]: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Results:
    """What one run of one suite measured."""

    head: RunHead
    records: Records[Record]


@dataclass(frozen=True)
class Baseline:
    """What was accepted for one lane and suite."""

    head: BaselineHead
    records: Records[BaselineRecord]


def read_results(path: Path) -> Results:
    """Read a results file whole; errors as in this module and `ci.results.files`."""
    with open_results(path) as (head, records):
        return Results(head, tuple(records))


def read_baseline(path: Path) -> Baseline:
    """Read a baseline file whole; errors as in this module and `ci.results.files`."""
    with open_baseline(path) as (head, records):
        return Baseline(head, tuple(records))


@contextmanager
def open_results(path: Path) -> Iterator[tuple[RunHead, Iterator[Record]]]:
    """Yield the head and an iterator over the records, one line in memory at a time."""
    with open_plain(path, MAX_FILE_BYTES) as stream:
        yield open_lines(path, stream, RESULTS_FORM)


@contextmanager
def open_baseline(path: Path) -> Iterator[tuple[BaselineHead, Iterator[BaselineRecord]]]:
    """Yield the head and an iterator over the records, one line in memory at a time."""
    with open_plain(path, MAX_FILE_BYTES) as stream:
        yield open_lines(path, stream, BASELINE_FORM)


def write_results(path: Path, head: RunHead, records: Iterable[Record]) -> None:
    """Write a results file in canonical form."""
    write_atomic(path, encode(head, records))


def write_baseline(path: Path, head: BaselineHead, records: Iterable[BaselineRecord]) -> None:
    """Write a baseline file in canonical form."""
    write_atomic(path, encode(head, records))


def encode(head: AnyHead, records: Iterable[AnyRecord]) -> bytes:
    """Return the canonical bytes: head, then one record a line in natural order of case and metric.

    Equal content gives equal bytes: keys in the order of the types, defaults
    left out, the shortest digits that read back as the same number.

    Raises:
        UnwritableRecordError: NaN, infinity, a lone surrogate, or a key given twice.
    """
    ordered = sorted(records, key=record_order)
    for before, after in itertools.pairwise(ordered):
        if (before.case, before.metric) == (after.case, after.metric):
            raise UnwritableRecordError(
                f"case {after.case!r}, metric {after.metric!r} is recorded twice",
                remedy="measure each metric of a case once, or name the cases apart",
            )
    return b"".join(_encode_line(line) + b"\n" for line in (_sorted_maps(head), *ordered))


def _sorted_maps(head: AnyHead) -> AnyHead:
    """Return ``head`` with its maps in key order, the only part whose order a writer chooses."""
    subject = msgspec.structs.replace(head.subject, flags=dict(sorted(head.subject.flags.items())))
    return msgspec.structs.replace(
        head,
        subject=subject,
        conditions=dict(sorted(head.conditions.items())),
        provenance=dict(sorted(head.provenance.items())),
    )


def _encode_line(line: AnyHead | AnyRecord) -> bytes:
    values = line.conditions.values() if isinstance(line, RunHead | BaselineHead) else (line.value,)
    for value in values:
        # The encoder would write null for these, which means "unread".
        if isinstance(value, float) and not math.isfinite(value):
            raise UnwritableRecordError(
                f"{_name(line)}: {value} is no JSON number",
                remedy="record None with a reason when a value could not be measured",
            )
    try:
        return msgspec.json.encode(line)
    except UnicodeEncodeError as error:
        raise UnwritableRecordError(
            f"{_name(line)}: a lone surrogate cannot be written",
            remedy="decode foreign bytes with errors='replace'",
        ) from error


def _name(line: AnyHead | AnyRecord) -> str:
    if isinstance(line, RunHead | BaselineHead):
        return f"head of {line.lane}/{line.suite}"
    return f"case {line.case!r}, metric {line.metric!r}"
