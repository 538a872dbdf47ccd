"""Records that stay in their file: checked once from end to end, then read again line by line.

A large file that is in canonical order is compared without ever being in
memory.  The second reading trusts the first, so it stops if the file changed
in between.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from ci.errors import GateError
from ci.results.files import open_plain
from ci.results.jsonl import (
    BASELINE_FORM,
    MAX_FILE_BYTES,
    RESULTS_FORM,
    Baseline,
    Form,
    Results,
    UnorderedError,
    open_ordered,
    read_baseline,
    read_results,
)
from ci.results.records import BaselineHead, BaselineRecord, Record, RunHead

STREAM_FROM_BYTES = 16 << 20
"""Smaller files are read whole: a hundred thousand records fit into memory many times over."""
H = TypeVar("H", RunHead, BaselineHead)
R = TypeVar("R", Record, BaselineRecord)


class ChangedError(GateError):
    """A file changed between its check and its use."""


@dataclass(frozen=True)
class StoredRecords(Generic[R]):
    """The records of a checked file in canonical order; each iteration reads it anew."""

    path: Path
    kind: type[R]
    count: int
    stamp: tuple[int, int, int]

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[R]:
        decode = msgspec.json.Decoder(self.kind).decode
        with open_plain(self.path, MAX_FILE_BYTES) as stream:
            self._check(stream.fileno())
            head = True
            for line in stream:
                if not line.strip():
                    continue
                if not head:
                    yield decode(line)
                head = False
            self._check(stream.fileno())

    def _check(self, descriptor: int) -> None:
        if _stamp(descriptor) != self.stamp:
            raise ChangedError(
                f"{self.path}: changed while it was read", remedy="compare again when nothing writes to it"
            )


def load_results(path: Path, stream_from: int = STREAM_FROM_BYTES) -> Results:
    """Read a results file; the records of a large one stay in it. Errors as for `read_results`."""
    if path.is_file() and path.stat().st_size >= stream_from:
        try:
            head, records = _check_file(path, RESULTS_FORM, Record)
            return Results(head, records)
        except UnorderedError:
            pass
    return read_results(path)


def load_baseline(path: Path, stream_from: int = STREAM_FROM_BYTES) -> Baseline:
    """Read a baseline file; the records of a large one stay in it. Errors as for `read_baseline`."""
    if path.is_file() and path.stat().st_size >= stream_from:
        try:
            head, records = _check_file(path, BASELINE_FORM, BaselineRecord)
            return Baseline(head, records)
        except UnorderedError:
            pass
    return read_baseline(path)


def _check_file(path: Path, form: Form[H, R], kind: type[R]) -> tuple[H, StoredRecords[R]]:
    with open_plain(path, MAX_FILE_BYTES) as stream:
        stamp = _stamp(stream.fileno())
        head, records = open_ordered(path, stream, form)
        count = sum(1 for _ in records)
    return head, StoredRecords(path, kind, count, stamp)


def _stamp(descriptor: int) -> tuple[int, int, int]:
    info = os.fstat(descriptor)
    return info.st_ino, info.st_size, info.st_mtime_ns
