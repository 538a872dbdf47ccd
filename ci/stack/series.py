"""The series: which patches, in which order.

Grammar of the file ``series`` (UTF-8; a byte order mark at its start, CRLF line
ends and a missing newline at its end carry no meaning and are accepted)::

    line    = blank | comment | entry
    comment = "#" anything                     (spaces before it are allowed)
    entry   = name [" -p" digits] [" #" anything]

* ``name`` is the name of a file in the same folder.  It may hold spaces, but no
  slash, no backslash, no leading ``-`` and no `` #``.
* ``-pN`` says how many leading folders of each path to drop; without it, 1.
* Every name stands once, every named file exists, and every ``*.patch`` and
  ``*.diff`` of the folder (in capitals or not) is named.  Anything else is an error, before any
  patch is looked at.

A folder without a ``series`` file is read as the sorted names of its
``*.patch`` and ``*.diff`` files; ``Series.note`` then says so.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ci.errors import UsageError
from ci.results.files import read_limited
from ci.stack.errors import (
    DoubledPatchError,
    EmptySeriesError,
    MissingPatchError,
    SeriesError,
    SeriesSyntaxError,
    UnlistedPatchError,
)
from ci.stack.patchfile import parse_patch
from ci.stack.patchmodel import Patch

SERIES_FILE = "series"
SUFFIXES = (".patch", ".diff")
OWN_SERIES = Path(__file__).resolve().parents[2] / "patches"
SERIES_VARIABLE = "FORKPROOF_SERIES"
MAX_PATCH_BYTES = 16 * 1024 * 1024
"""Far above any patch a person reviews; keeps a stray file from filling the memory."""

_COMMENT = re.compile(r"(^|\s)#.*")
_STRIP = re.compile(r"\s+-p(\d+)$")


@dataclass(frozen=True)
class Entry:
    """One line of the series."""

    name: str
    strip: int
    """Leading folders to drop from each path."""
    line: int | None
    """Line of the series file, from 1; None in a folder without one."""


@dataclass(frozen=True)
class Series:
    """The parsed patches of a folder, in order."""

    folder: Path
    patches: tuple[Patch, ...]
    note: str | None = None
    """Something about the folder that a reader should know."""


def series_folder(given: str | Path | None) -> Path:
    """The folder to use: the one given, else ``$FORKPROOF_SERIES``, else the project's own."""
    return Path(given or os.environ.get(SERIES_VARIABLE) or OWN_SERIES)


def read_series(folder: Path) -> Series:
    """Read and parse every patch of ``folder``.

    Raises:
        SeriesError: the folder or its series file is not usable.
        PatchError: a patch is not a usable unified diff.
    """
    entries, note = list_entries(folder)
    patches = tuple(_read_patch(folder, entry) for entry in entries)
    return Series(folder, patches, note)


def list_entries(folder: Path) -> tuple[tuple[Entry, ...], str | None]:
    """The entries of ``folder`` in order, checked against the files that are there; and a note."""
    if not folder.is_dir():
        raise UsageError(
            f"{folder}: no such folder of patches",
            remedy=f"name one with --series DIR or {SERIES_VARIABLE}",
        )
    present = sorted(item.name for item in folder.iterdir() if item.name.lower().endswith(SUFFIXES))
    if not (folder / SERIES_FILE).exists():
        if not present:
            raise EmptySeriesError(f"{folder}: no patches", remedy="put *.patch files there")
        entries = tuple(Entry(name, 1, None) for name in present)
        return entries, f"{folder} has no series file: its {len(present)} patches are taken in name order"
    entries = parse_series(read_limited(folder / SERIES_FILE, MAX_PATCH_BYTES), str(folder / SERIES_FILE))
    _check_files(folder, entries, present)
    return entries, None


def parse_series(data: bytes, path: str) -> tuple[Entry, ...]:
    """Parse the bytes of a series file; see the grammar at the top of this module.

    Raises:
        SeriesSyntaxError, DoubledPatchError, EmptySeriesError: with ``path`` and the line.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SeriesSyntaxError(f"{path}:{line}: not UTF-8", remedy="save the file as UTF-8") from error
    lines = enumerate(text.split("\n"), start=1)
    entries = tuple(entry for number, line in lines if (entry := _parse_line(line, number, path)))
    _check_doubled(entries, path)
    if not entries:
        raise EmptySeriesError(f"{path}: names no patch", remedy="list the patches, one name a line")
    return entries


def _parse_line(line: str, number: int, path: str) -> Entry | None:
    text = _COMMENT.sub("", line).strip()
    if not text:
        return None
    strip = 1
    if match := _STRIP.search(text):
        strip, text = int(match[1]), text[: match.start()]
    problem = _name_problem(text)
    if problem:
        raise SeriesSyntaxError(
            f"{path}:{number}: {problem}: {line.strip()!r}",
            remedy="write one patch name a line, then optionally -pN, then optionally # and a comment",
        )
    return Entry(text, strip, number)


def _name_problem(name: str) -> str | None:
    if re.search(r"^-|\s-\S*$", name):
        return "only the option -pN is known, after the name"
    if "/" in name or "\\" in name or name in {".", ".."}:
        return "a patch stands in the same folder as its series, so its name has no slash"
    if any(ord(char) < 32 for char in name):
        return "a control character in the name"
    return None


def _check_doubled(entries: tuple[Entry, ...], path: str) -> None:
    first: dict[str, Entry] = {}
    for entry in entries:
        earlier = first.setdefault(entry.name, entry)
        if earlier is not entry:
            raise DoubledPatchError(
                f"{path}:{entry.line}: {entry.name} is listed twice, first on line {earlier.line}",
                remedy="remove one of the two lines",
            )


def _check_files(folder: Path, entries: tuple[Entry, ...], present: list[str]) -> None:
    missing = [entry for entry in entries if not (folder / entry.name).is_file()]
    if missing:
        lines = ", ".join(f"{entry.name} (line {entry.line})" for entry in missing)
        raise MissingPatchError(
            f"{folder / SERIES_FILE}: no such file in the folder: {lines}",
            remedy="add the file, or remove its line",
        )
    unlisted = sorted(set(present) - {entry.name for entry in entries})
    if unlisted:
        raise UnlistedPatchError(
            f"{folder}: not listed in series: {', '.join(unlisted)}",
            cause="a patch that is not listed is not applied, and nobody would notice",
            remedy="list it, or move it out of the folder",
        )


def _read_patch(folder: Path, entry: Entry) -> Patch:
    data = read_limited(folder / entry.name, MAX_PATCH_BYTES)
    return parse_patch(entry.name, data, entry.strip)


__all__ = ["Entry", "Series", "SeriesError", "list_entries", "parse_series", "read_series", "series_folder"]
