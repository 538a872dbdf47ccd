"""A tree of files to patch: on disk, in memory, and one laid over the other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol


class Tree(Protocol):
    """Files by their path relative to the root, with forward slashes."""

    def read(self, path: str) -> bytes | None:
        """The content, or None if there is no such file."""

    def paths(self) -> Iterator[str]:
        """Every file."""

    def left_out(self, path: str) -> bool:
        """True if the wheel has this file, but this tree was made without it."""


class MemoryTree:
    """A tree held in a dictionary."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)

    def read(self, path: str) -> bytes | None:
        """The content, or None if there is no such file."""
        return self.files.get(path)

    def paths(self) -> Iterator[str]:
        """Every file."""
        return iter(sorted(self.files))

    def left_out(self, path: str) -> bool:
        """Nothing is left out of it."""
        return False


class DiskTree:
    """A tree under a folder.

    Args:
        root: the folder.
        listed: every path of the wheel, whether or not this flavour has it.
    """

    def __init__(self, root: Path, listed: frozenset[str] = frozenset()) -> None:
        self.root = root
        self.listed = listed

    def read(self, path: str) -> bytes | None:
        """The content, or None if there is no such plain file."""
        file = self.root / path
        return file.read_bytes() if file.is_file() else None

    def paths(self) -> Iterator[str]:
        """Every file, compiled ones left aside."""
        return walk_files(self.root)

    def left_out(self, path: str) -> bool:
        """True if the wheel has this file, but this tree was made without it."""
        return path in self.listed and not (self.root / path).exists()


class Overlay:
    """Another tree with some files changed, added or removed, in memory."""

    def __init__(self, base: Tree) -> None:
        self.base = base
        self.changed: dict[str, bytes | None] = {}
        """Content by path; None for a removed file."""

    def read(self, path: str) -> bytes | None:
        """The content, or None if there is no such file."""
        return self.changed[path] if path in self.changed else self.base.read(path)

    def paths(self) -> Iterator[str]:
        """Every file."""
        kept = {path for path in self.base.paths() if path not in self.changed}
        return iter(sorted(kept | {path for path, data in self.changed.items() if data is not None}))

    def left_out(self, path: str) -> bool:
        """As the tree below says."""
        return path not in self.changed and self.base.left_out(path)

    def write(self, path: str, data: bytes | None) -> None:
        """Set the content of a file, or remove it with None."""
        self.changed[path] = data


def walk_files(root: Path) -> Iterator[str]:
    """Every file under ``root`` as a relative path, sorted by folder; Python's caches are left aside."""
    base = str(root)
    for folder, folders, names in os.walk(base):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        inner = folder[len(base) + 1 :].replace(os.sep, "/")
        for name in sorted(names):
            if not name.endswith(".pyc"):
                yield f"{inner}/{name}" if inner else name
