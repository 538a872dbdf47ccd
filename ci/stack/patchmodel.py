"""A patch as data: file changes, their hunks, and the two hashes.

Lines are bytes and keep their line end, so that a missing newline at the end of
a file, or a carriage return, is part of what has to match.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass


class ChangeKind(enum.Enum):
    """What a patch does to one file."""

    MODIFY = "modify"
    CREATE = "create"
    DELETE = "delete"
    RENAME = "rename"
    COPY = "copy"


@dataclass(frozen=True)
class Hunk:
    """One block of a unified diff."""

    number: int
    """Position within its file, from 1."""
    line: int
    """Line of the patch file on which the ``@@`` stands, from 1."""
    old_start: int
    """Stated first line in the old file, from 1 (0 if the hunk has no old line)."""
    body: tuple[bytes, ...]
    """Every line with its mark (space, minus, plus) and its line end."""

    @property
    def old(self) -> tuple[bytes, ...]:
        """The lines that must stand in the file: context and removed ones."""
        return tuple(line[1:] for line in self.body if line[:1] != b"+")

    @property
    def new(self) -> tuple[bytes, ...]:
        """The lines that stand there afterwards: context and added ones."""
        return tuple(line[1:] for line in self.body if line[:1] != b"-")

    @property
    def added(self) -> tuple[bytes, ...]:
        """The added lines alone."""
        return tuple(line[1:] for line in self.body if line[:1] == b"+")

    @property
    def at_start(self) -> bool:
        """True if the hunk was cut at the start of the file: stated on line 1, and no context before it."""
        return self.old_start <= 1 and self.body[0][:1] != b" "

    @property
    def at_end(self) -> bool:
        """True if no context follows the last change, which means that the file ends there."""
        return self.body[-1][:1] != b" "

    @property
    def stated(self) -> int:
        """Stated place in the old file, from 0."""
        return max(self.old_start - 1, 0)


@dataclass(frozen=True)
class FileChange:
    """Everything one patch does to one file, in one go."""

    kind: ChangeKind
    old_path: str | None
    """Path as the patch names it, after ``-pN``; None for a created file."""
    new_path: str | None
    """The same for the new side; None for a deleted file."""
    hunks: tuple[Hunk, ...]
    line: int
    """Line of the patch file on which this part starts, from 1."""

    @property
    def path(self) -> str:
        """The path to call it by in messages."""
        return self.new_path or self.old_path or ""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that the change touches or reads."""
        return tuple(dict.fromkeys(path for path in (self.old_path, self.new_path) if path is not None))


@dataclass(frozen=True)
class Patch:
    """One parsed patch file."""

    name: str
    changes: tuple[FileChange, ...]
    file_hash: str
    """sha256 of the whole file."""

    @property
    def hunk_hash(self) -> str:
        """sha256 over what the patch does, and nothing else.

        Covered: kind and paths of every change, and every hunk's lines.  Not covered: the text
        before the diff, ``diff``/``index`` lines, line numbers and section names after ``@@``.
        So a reworded header, or a re-diff at other offsets, is the same patch.
        """
        digest = hashlib.sha256()
        for change in self.changes:
            _feed(digest, (change.kind.value.encode(), *_names(change)))
            for hunk in change.hunks:
                _feed(digest, hunk.body)
        return digest.hexdigest()


def series_hash(patches: Iterable[Patch]) -> str:
    """sha256 over the hunk hashes of ``patches`` in order: what an arm is made of.

    File names of patches do not count, only what they do.
    """
    digest = hashlib.sha256()
    for patch in patches:
        digest.update(bytes.fromhex(patch.hunk_hash))
    return digest.hexdigest()


def _names(change: FileChange) -> tuple[bytes, bytes]:
    return (change.old_path or "").encode(), (change.new_path or "").encode()


def _feed(digest: hashlib._Hash, parts: tuple[bytes, ...]) -> None:
    """Add ``parts`` so that no two different splits give the same hash."""
    digest.update(b"%d;" % len(parts))
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
