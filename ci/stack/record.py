"""RECORD, the wheel's own list of files and hashes, and a folder compared with such a list."""

from __future__ import annotations

import base64
import csv
import enum
import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ci.stack.errors import RecordError
from ci.stack.pin import Pin
from ci.stack.tree import walk_files


class Flavour(enum.Enum):
    """How much of the wheel an arm has."""

    LEAN = "lean"
    """The .py files and the metadata: enough for a machine without a GPU."""
    FULL = "full"
    """Every file."""

    def keeps(self, path: str) -> bool:
        """True if this flavour has the file."""
        return self is Flavour.FULL or path.endswith(".py") or path.partition("/")[0].endswith(".dist-info")


@dataclass(frozen=True)
class Listed:
    """What RECORD says about one file."""

    sha256: str
    """Hexadecimal."""
    size: int | None
    """Bytes; None where it is not listed."""


@dataclass(frozen=True)
class Record:
    """The parsed RECORD; it lists itself with its pinned hash."""

    files: Mapping[str, Listed]

    def of(self, flavour: Flavour) -> dict[str, Listed]:
        """The files that ``flavour`` has."""
        return {path: listed for path, listed in self.files.items() if flavour.keeps(path)}

    def check(self, path: str, data: bytes) -> None:
        """Raise RecordError unless ``data`` is what RECORD lists for ``path``."""
        listed = self.files.get(path)
        found = hashlib.sha256(data).hexdigest()
        if listed is None:
            raise RecordError(f"{path}: in the wheel, not in its RECORD", remedy="do not use this wheel")
        if found != listed.sha256 or listed.size not in (None, len(data)):
            raise RecordError(
                f"{path}: sha256 {found}, {len(data)} bytes; "
                f"RECORD lists {listed.sha256}, {listed.size} bytes",
                cause="the transfer was damaged, or a mirror serves another file",
                remedy="build again; if it stays, point pip at another index",
            )


def parse_record(data: bytes, pin: Pin) -> Record:
    """Check RECORD against its pinned hash and read it.

    Raises:
        RecordError: it is another file, or it lists a path that leaves the tree.
    """
    found = hashlib.sha256(data).hexdigest()
    if found != pin.record_sha256:
        raise RecordError(
            f"{pin.dist_info}/RECORD: sha256 {found}, pinned is {pin.record_sha256}",
            cause="this is not the pinned wheel",
            remedy="pip config list shows where pip looks; or move the pin in ci/stack/pin.toml on purpose",
        )
    files = {f"{pin.dist_info}/RECORD": Listed(found, len(data))}
    for row in csv.reader(io.StringIO(data.decode("utf-8"))):
        path, digest, size = [*row, "", ""][:3]
        if not digest:
            continue
        if path.startswith("/") or ".." in PurePosixPath(path).parts or "\\" in path:
            raise RecordError(f"{pin.dist_info}/RECORD: path {path!r} leaves the tree")
        files[path] = Listed(_hexadecimal(path, digest), int(size) if size else None)
    return Record(files)


def _hexadecimal(path: str, digest: str) -> str:
    kind, _, value = digest.partition("=")
    if kind != "sha256":
        raise RecordError(f"RECORD: {path} has a hash of kind {kind}, only sha256 is read")
    return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()


class DifferenceKind(enum.Enum):
    """How a file is not as it should be."""

    CHANGED = "changed"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True)
class Difference:
    """One file that is not as it should be."""

    path: str
    kind: DifferenceKind


def compare_folder(
    root: Path, expected: Mapping[str, str], *, ignore: Iterable[str] = ()
) -> list[Difference]:
    """Hash every file under ``root`` and compare with ``expected`` (path -> sha256).

    Python's own caches are left aside, and so are the paths in ``ignore``.
    """
    left = dict(expected)
    ignored = frozenset(ignore)
    found = []
    for path in walk_files(root):
        if path in ignored:
            continue
        wanted = left.pop(path, None)
        file = root / path
        if wanted is None:
            found.append(Difference(path, DifferenceKind.EXTRA))
        elif file.is_symlink() or sha256_of(file) != wanted:
            found.append(Difference(path, DifferenceKind.CHANGED))
    found += [Difference(path, DifferenceKind.MISSING) for path in left]
    return sorted(found, key=lambda difference: difference.path)


def sha256_of(file: Path) -> str:
    """Hash of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
