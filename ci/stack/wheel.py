"""The stock tree: the pinned wheel's files in the cache, every one checked against RECORD."""

from __future__ import annotations

import time
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ci.stack.cache import new_folder, remove
from ci.stack.errors import RecordError, WheelMismatchError
from ci.stack.locate import WheelSource, locate_wheel
from ci.stack.net import BLOCK_BYTES, attempt, request
from ci.stack.pin import Pin
from ci.stack.progress import Progress
from ci.stack.ranges import Counted, RangesRefusedError, RemoteFile, SparseFile
from ci.stack.record import Flavour, Record, compare_folder, parse_record, sha256_of

Locate = Callable[[Pin, Path], WheelSource]


@dataclass(frozen=True)
class StockTree:
    """The unpatched tree of one flavour."""

    root: Path
    record: Record
    flavour: Flavour
    counted: Counted = field(default_factory=Counted)
    """What was transferred to make it; nothing if it was in the cache."""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def expected(self) -> dict[str, str]:
        """sha256 by path of every file it must have."""
        return {path: listed.sha256 for path, listed in self.record.of(self.flavour).items()}


def tree_folder(pin: Pin, flavour: Flavour, cache: Path) -> Path:
    """Where the stock tree is, if it was made."""
    return cache / "trees" / f"{pin.key}-{flavour.value}"


def stock_tree(
    pin: Pin, flavour: Flavour, cache: Path, progress: Progress, locate: Locate = locate_wheel
) -> StockTree:
    """The stock tree, from the cache if it is whole there, else from the wheel.

    Every file of a cached tree is hashed again; a damaged tree is made anew and the
    damage reported.  Call it with the cache held.

    Raises:
        StackError: the wheel cannot be found, fetched or trusted; nothing is left half-made.
    """
    root = tree_folder(pin, flavour, cache)
    notes: list[str] = []
    if root.is_dir():
        record, problem = _inspect(root, pin, flavour)
        if record is not None and problem is None:
            return StockTree(root, record, flavour)
        notes.append(f"the cached tree was damaged ({problem}) and is made anew")
        progress.say(notes[-1])
    started = time.monotonic()
    counted, record = _Fetch(pin, flavour, cache, progress, notes).into(root, locate)
    return StockTree(root, record, flavour, counted, time.monotonic() - started, tuple(notes))


def _inspect(root: Path, pin: Pin, flavour: Flavour) -> tuple[Record | None, str | None]:
    """The record of a cached tree, and what is wrong with the tree."""
    try:
        record = parse_record((root / pin.dist_info / "RECORD").read_bytes(), pin)
    except (OSError, RecordError):
        return None, "RECORD"
    expected = {path: listed.sha256 for path, listed in record.of(flavour).items()}
    differences = compare_folder(root, expected)
    if not differences:
        return record, None
    more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
    return record, f"{differences[0].path} {differences[0].kind.value}{more}"


class _Fetch:
    """One way from the wheel, wherever it is, to a folder of checked files."""

    def __init__(self, pin: Pin, flavour: Flavour, cache: Path, progress: Progress, notes: list[str]) -> None:
        self.pin, self.flavour, self.cache = pin, flavour, cache
        self.progress, self.notes = progress, notes

    def into(self, root: Path, locate: Locate) -> tuple[Counted, Record]:
        kept = self.cache / "wheels" / self.pin.wheel
        if kept.is_file():
            return Counted(), self._from_file(kept, root)
        self.progress.say(f"asking pip where {self.pin.wheel} is")
        source = locate(self.pin, self.cache)
        if source.local is not None:
            self._note(f"the wheel is read from {source.local}")
            return Counted(), self._from_file(source.local, root)
        if self.flavour is Flavour.LEAN:
            try:
                return self._by_ranges(source.url, root)
            except RangesRefusedError:
                self._note("the server refuses range requests: the whole wheel is downloaded")
        counted = self._download(source.url, kept)
        return counted, self._from_file(kept, root)

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.progress.say(text)

    def _by_ranges(self, url: str, root: Path) -> tuple[Counted, Record]:
        remote = RemoteFile(url)
        sparse = SparseFile(remote)
        with open_wheel(sparse, url.rpartition("/")[2]) as archive:
            infos = archive.infolist()
            sparse.prefetch(member_spans(infos, archive.start_dir, self.flavour.keeps), self.progress)
            record = self._unpack(archive, root)
        return remote.counted, record

    def _from_file(self, wheel: Path, root: Path) -> Record:
        """Unpack a wheel on disk; for the lean flavour RECORD alone vouches for the files it takes."""
        if self.flavour is Flavour.FULL:
            check_wheel(wheel, self.pin)
        with wheel.open("rb") as stream, open_wheel(stream, str(wheel)) as archive:
            return self._unpack(archive, root)

    def _unpack(self, archive: zipfile.ZipFile, root: Path) -> Record:
        name = f"{self.pin.dist_info}/RECORD"
        if name not in archive.namelist():
            raise WheelMismatchError(
                f"the wheel has no {name}", remedy="pip config list shows where pip looks"
            )
        record = parse_record(inflate(archive, archive.getinfo(name)), self.pin)
        wanted = record.of(self.flavour)
        infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}
        absent = sorted(wanted.keys() - infos.keys())
        unlisted = sorted(path for path in infos.keys() - wanted.keys() if self.flavour.keeps(path))
        if absent or unlisted:
            raise RecordError(
                f"RECORD and the wheel's files do not agree: {', '.join([*absent, *unlisted][:3])}"
            )
        self.progress.begin("checking against RECORD", len(wanted))
        try:
            with new_folder(root) as folder:
                for path in wanted:
                    _write_member(folder / path, read_member(archive, infos[path], record), infos[path])
                    self.progress.advance(1)
        finally:
            self.progress.end()
        return record

    def _download(self, url: str, kept: Path) -> Counted:
        """The whole wheel into ``kept``, checked before it gets its name."""
        counted = Counted()
        partial = kept.with_name(kept.name + ".part")
        kept.parent.mkdir(parents=True, exist_ok=True)

        def transfer() -> None:
            counted.requests += 1
            with request(url) as response, partial.open("wb") as target:
                length = int(response.headers.get("Content-Length") or 0)
                self.progress.begin("downloading the whole wheel", length)
                done = _copy(response, target, self.progress)
                counted.bytes += done
            if length and done != length:
                raise OSError(f"{done} of {length} bytes came")

        try:
            attempt(url, transfer)
            check_wheel(partial, self.pin)
            partial.replace(kept)
        finally:
            self.progress.end()
            remove(partial)
        return counted


def member_spans(
    infos: Iterable[zipfile.ZipInfo], end: int, wanted: Callable[[str], bool]
) -> list[tuple[int, int]]:
    """The bytes of each wanted member, its local header included.

    A local header's length is not in the directory, so a member is taken to reach to
    the next one (or to ``end``, where the directory starts).
    """
    ordered = sorted(infos, key=lambda info: info.header_offset)
    ends = [info.header_offset for info in ordered[1:]] + [end]
    pairs = zip(ordered, ends, strict=True)
    return [(info.header_offset, stop) for info, stop in pairs if wanted(info.filename)]


def check_wheel(wheel: Path, pin: Pin) -> None:
    """Raise WheelMismatchError unless ``wheel`` is the pinned file."""
    found = sha256_of(wheel)
    if found != pin.wheel_sha256:
        raise WheelMismatchError(
            f"{wheel}: sha256 {found}, pinned is {pin.wheel_sha256}",
            cause="the transfer was damaged, or this is another build",
            remedy=f"rm {wheel}, and build again",
        )


def open_wheel(stream: IO[bytes] | SparseFile, name: str) -> zipfile.ZipFile:
    """Open a wheel; WheelMismatchError if it is none. ``name`` is for the message."""
    try:
        return zipfile.ZipFile(stream)
    except zipfile.BadZipFile as error:
        raise WheelMismatchError(
            f"{name}: no readable wheel: {error}", remedy="remove it, build again"
        ) from error


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, record: Record) -> bytes:
    """The content of one file, checked against RECORD; RecordError if it is another."""
    data = inflate(archive, info)
    record.check(info.filename, data)
    return data


def inflate(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """The content of one file, unchecked; RecordError if it cannot be unpacked."""
    try:
        return archive.read(info)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise RecordError(f"{info.filename}: damaged in the wheel: {error}", remedy="build again") from error


def _write_member(file: Path, data: bytes, info: zipfile.ZipInfo) -> None:
    """Write one file read-only: arms share it by hard links, so an edit in place would reach all of them."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    file.chmod(0o555 if (info.external_attr >> 16) & 0o111 else 0o444)


def _copy(source: IO[bytes], target: IO[bytes], progress: Progress) -> int:
    done = 0
    while block := source.read(BLOCK_BYTES):
        target.write(block)
        done += len(block)
        progress.advance(len(block))
    return done
