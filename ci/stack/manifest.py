"""``arm.json``: what an arm is made of, written into the arm when it is built."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ci.results.files import read_limited, write_atomic
from ci.stack.errors import CacheError

MANIFEST = "arm.json"
MANIFEST_SCHEMA = 1
MAX_MANIFEST_BYTES = 16 * 1024 * 1024


class PatchEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One patch of the arm."""

    name: str
    hunk_hash: str
    """sha256 over what the patch does; a reworded header leaves it alone."""
    file_hash: str
    """sha256 over the whole file."""


class FilePair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """sha256 of one file before and after; None where it does not exist."""

    stock: str | None
    patched: str | None


class Offset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A hunk that stood on another line than the patch says."""

    patch: str
    file: str
    hunk: int
    stated: int
    """Line, from 1."""
    found: int


class ArmManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that makes one arm another than the stock wheel."""

    schema: int
    arm: str
    vllm: str
    wheel_sha256: str
    flavour: str
    series_hash: str
    """Over the hunks of this arm's patches, in order."""
    patches: list[PatchEntry]
    files: dict[str, FilePair]
    """Only files that differ from stock, by path from the arm's root."""
    offsets: list[Offset]


def write_manifest(root: Path, manifest: ArmManifest) -> None:
    """Write ``arm.json`` into the arm's folder."""
    data = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    write_atomic(root / MANIFEST, data + b"\n")


def read_manifest(root: Path) -> ArmManifest:
    """Read ``arm.json`` of the arm in ``root``.

    Raises:
        CacheError: it is not a manifest that this version reads.
        FileMissingError, FileUnreadableError: it cannot be read at all.
    """
    try:
        manifest = msgspec.json.decode(read_limited(root / MANIFEST, MAX_MANIFEST_BYTES), type=ArmManifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CacheError(f"{root / MANIFEST}: {error}", remedy="python -m ci stack build") from error
    if manifest.schema != MANIFEST_SCHEMA:
        raise CacheError(
            f"{root / MANIFEST}: schema {manifest.schema}, this version reads {MANIFEST_SCHEMA}",
            remedy="python -m ci stack build",
        )
    return manifest
