"""Records that stay in their file: the same records, the same errors, no matter how large the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.results.jsonl import (
    DuplicateRecordError,
    MalformedRecordError,
    TornRecordsError,
    encode,
    read_baseline,
    read_results,
)
from ci.results.records import Record
from ci.results.stored import ChangedError, StoredRecords, load_baseline, load_results
from tests.gate.samples import Sample


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a results file in canonical order, with names that natural order sorts otherwise."""
    file = tmp_path / "records.jsonl"
    records = [Record(f"c{case}", metric, case, "1") for case in (2, 10, 1) for metric in ("m10", "m9")]
    file.write_bytes(encode(Sample().run_head(), records))
    return file


def test_same_records_as_read_whole(path: Path) -> None:
    """Streamed or not, the records are the same, and can be gone through twice."""
    stored, whole = load_results(path, stream_from=0), read_results(path)
    assert isinstance(stored.records, StoredRecords)
    assert stored.head == whole.head
    assert list(stored.records) == list(stored.records) == list(whole.records)
    assert len(stored.records) == 6


def test_small_files_are_read_whole(path: Path) -> None:
    """Below the limit nothing is left in the file."""
    assert isinstance(load_results(path).records, tuple)


def test_baselines_as_well(tmp_path: Path) -> None:
    """A large baseline stays in its file, blank lines included."""
    sample = Sample().write(tmp_path)
    path = sample / "baselines" / "cpu" / "property.jsonl"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n\n"))
    assert list(load_baseline(path, stream_from=0).records) == list(read_baseline(path).records)


def test_unordered_files_are_read_whole(path: Path) -> None:
    """A file in another order is read into memory instead of being refused."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *reversed(lines[1:])]))
    assert load_results(path, stream_from=0) == read_results(path)
    assert isinstance(load_results(path, stream_from=0).records, tuple)


def test_damage_is_named_as_ever(path: Path) -> None:
    """Doubled keys, torn lines and malformed records are the same errors."""
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged, error in (
        (b"".join([*lines[:3], *lines[2:]]), DuplicateRecordError),
        (b"".join(lines)[:-5], TornRecordsError),
        (b"".join([*lines[:3], b"{}\n", *lines[3:]]), MalformedRecordError),
    ):
        path.write_bytes(damaged)
        with pytest.raises(error):
            load_results(path, stream_from=0)


def test_a_file_that_changes_is_not_trusted(path: Path) -> None:
    """What was checked is what is compared."""
    records = load_results(path, stream_from=0).records
    os.utime(path, (1, 1))
    with pytest.raises(ChangedError):
        list(records)
