"""Read a unified diff, plain or git-style, and refuse what could be read in two ways.

What other tools repair in silence is an error here: counts that do not add up,
an empty context line without its space, carriage returns in header lines,
binary parts without data, text behind a hunk that looks like more of it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

from ci.stack.errors import (
    BinaryPatchError,
    CorruptPatchError,
    EmptyPatchError,
    EncodingError,
    LineEndingsError,
    ModeChangeError,
    PatchError,
    SymlinkError,
)
from ci.stack.hunks import HUNK, read_hunk
from ci.stack.patchmodel import ChangeKind, FileChange, Hunk, Patch
from ci.stack.patchpath import clean_path, git_header_path, header_path

_HEADERS = (b"diff --git ", b"--- ", b"+++ ", b"@@ ")
_COMBINED = (b"diff --cc ", b"diff --combined ", b"@@@ ")
_BINARY = re.compile(rb"(Binary files|Files) .+ and .+ differ\s*|GIT binary patch\s*")
_EXTENDED = re.compile(
    rb"(old mode|new mode|deleted file mode|new file mode|copy from|copy to|rename from|rename to"
    rb"|similarity index|dissimilarity index|index) (.*)"
)
_PLAIN_MODE = b"100644"
_LINK_MODES = {b"120000": "a symbolic link", b"160000": "a submodule"}


@dataclass
class _GitHeader:
    """The lines between ``diff --git`` and the hunks."""

    line: int
    path: str | None
    fields: dict[str, bytes] = field(default_factory=dict)


def parse_patch(name: str, data: bytes, strip: int = 1) -> Patch:
    """Parse the bytes of one patch file.

    Args:
        name: file name, for messages and the manifest.
        data: the whole file.
        strip: leading folders to drop from each path (``-pN``).

    Raises:
        PatchError: one class per kind of defect, with the line.
    """
    changes = _Parser(name, data, strip).parse()
    if not changes:
        raise EmptyPatchError(
            name,
            "no unified diff in it",
            cause=_why_nothing(data),
            remedy="write it with: git diff --no-color > FILE",
        )
    return Patch(name, tuple(changes), hashlib.sha256(data).hexdigest())


def _why_nothing(data: bytes) -> str | None:
    if not data.strip():
        return "the file is empty"
    if re.search(rb"^\*\*\* .+\n--- .+\n\*{5,}", data, re.MULTILINE):
        return "it is a context diff"
    if re.search(rb"^\x1b\[[0-9;]*m", data, re.MULTILINE):
        return "it holds terminal colours"
    return None


class _Parser:
    """Walks over the lines once; ``at`` is the next line to read, from 0."""

    def __init__(self, name: str, data: bytes, strip: int) -> None:
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise EncodingError(
                name, "the patch is UTF-16", cause="a shell's redirection re-encoded it",
                remedy="write it with: git diff --no-color --output=FILE",
            )  # fmt: skip
        if b"\0" in data:
            raise CorruptPatchError(
                name, "a NUL byte", line=data.partition(b"\0")[0].count(b"\n") + 1,
                cause="no text has one: the file was damaged, or padded by a tool",
                remedy="write it with: git diff --no-color --output=FILE",
            )  # fmt: skip
        parts = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        self.lines = [part + b"\n" for part in parts[:-1]] + [part for part in parts[-1:] if part]
        self.name = name
        self.strip = strip
        self.at = 0
        self.header: _GitHeader | None = None
        self.changes: list[FileChange] = []

    def parse(self) -> list[FileChange]:
        while self.at < len(self.lines):
            self._step(self.lines[self.at])
        self._end_header()
        return self.changes

    def _step(self, line: bytes) -> None:
        self._refuse_carriage_return(line)
        if line.startswith(b"diff --git "):
            self._end_header()
            path = git_header_path(line, self.strip, self.name, self.at + 1)
            self.header = _GitHeader(self.at + 1, path)
        elif line.startswith(b"--- ") and self._peek(1).startswith(b"+++ "):
            self._file()
            return
        elif self.header is not None and (match := _EXTENDED.match(line.rstrip(b"\r\n"))):
            self.header.fields[match[1].decode()] = match[2]
        else:
            self._refuse_stray(line)
        self.at += 1

    def _peek(self, ahead: int) -> bytes:
        index = self.at + ahead
        return self.lines[index] if index < len(self.lines) else b""

    def _refuse_carriage_return(self, line: bytes) -> None:
        if line.endswith(b"\r\n") and line.startswith(_HEADERS):
            raise LineEndingsError(
                self.name,
                "line endings: the patch's own header lines end in CRLF",
                line=self.at + 1,
                cause="an editor or a checkout converted the patch; its content can no longer be trusted",
                remedy="convert it back (dos2unix), and mark it in .gitattributes: *.patch -text",
            )

    def _refuse_stray(self, line: bytes) -> None:
        number = self.at + 1
        if line.startswith(_COMBINED):
            raise CorruptPatchError(
                self.name, "a combined diff (of a merge) has two old sides", line=number,
                remedy="diff against one parent: git diff PARENT MERGE",
            )  # fmt: skip
        if HUNK.match(line):
            raise CorruptPatchError(self.name, "a hunk without the --- and +++ lines before it", line=number)
        if _BINARY.fullmatch(line):
            raise BinaryPatchError(
                self.name,
                "a binary file",
                file=self.header.path if self.header else None,
                line=number,
                cause="a text diff carries no binary data, so the file would silently stay as it is",
                remedy="take the binary file out of the patch",
            )

    # --- one file -----------------------------------------------------------------------------

    def _file(self) -> None:
        start = self.at
        sides = []
        for mark in (b"--- ", b"+++ "):
            self._refuse_carriage_return(self.lines[self.at])
            raw = self.lines[self.at].removeprefix(mark).rstrip(b"\n")
            sides.append(header_path(raw, self.strip, self.name, self.at + 1))
            self.at += 1
        hunks = self._hunks(sides[1] or sides[0])
        header, self.header = self.header, None
        if header is not None:
            self._check_modes(header)
        self.changes.append(self._change(sides[0], sides[1], hunks, header, start + 1))

    def _hunks(self, path: str | None) -> tuple[Hunk, ...]:
        hunks: list[Hunk] = []
        while HUNK.match(self._peek(0)):
            self._refuse_carriage_return(self.lines[self.at])
            hunk, self.at = read_hunk(self.lines, self.at, len(hunks) + 1, self.name, path or "")
            hunks.append(hunk)
        if not hunks:
            raise EmptyPatchError(self.name, "no hunk follows the --- and +++ lines", file=path, line=self.at)
        return tuple(hunks)

    def _change(
        self, old: str | None, new: str | None, hunks: tuple[Hunk, ...], header: _GitHeader | None, line: int
    ) -> FileChange:
        fields = header.fields if header else {}
        if "rename from" in fields or "copy from" in fields:
            return self._moved(fields, hunks, line)
        if (old is None and new is None) or (new is None and "new file mode" in fields):
            raise CorruptPatchError(self.name, "no file on the new side", line=line)
        if old is None or "new file mode" in fields:
            return FileChange(ChangeKind.CREATE, None, new, hunks, line)
        if new is None or "deleted file mode" in fields:
            return FileChange(ChangeKind.DELETE, old, None, hunks, line)
        if old != new:
            raise CorruptPatchError(
                self.name, f"two different files: {old} and {new}", line=line,
                cause="without 'rename from' it is not clear which one is meant",
                remedy="make both lines name the file of the tree",
            )  # fmt: skip
        return FileChange(ChangeKind.MODIFY, old, new, hunks, line)

    def _moved(self, fields: dict[str, bytes], hunks: tuple[Hunk, ...], line: int) -> FileChange:
        word = "rename" if "rename from" in fields else "copy"
        if f"{word} to" not in fields:
            raise CorruptPatchError(self.name, f"'{word} from' without '{word} to'", line=line)
        strip = max(self.strip - 1, 0)  # these lines carry no a/ and b/
        old, new = (clean_path(fields[f"{word} {end}"], strip, self.name, line) for end in ("from", "to"))
        return FileChange(ChangeKind(word), old, new, hunks, line)

    def _end_header(self) -> None:
        """A ``diff --git`` part that ended without hunks: a pure rename, an empty file, or nothing."""
        header, self.header = self.header, None
        if header is None:
            return
        self._check_modes(header)
        fields = header.fields
        if "rename from" in fields or "copy from" in fields:
            self.changes.append(self._moved(fields, (), header.line))
        elif header.path and "new file mode" in fields:
            self.changes.append(FileChange(ChangeKind.CREATE, None, header.path, (), header.line))
        elif header.path and "deleted file mode" in fields:
            self.changes.append(FileChange(ChangeKind.DELETE, header.path, None, (), header.line))
        else:
            raise EmptyPatchError(
                self.name, "named, but nothing is changed in it", file=header.path, line=header.line,
                remedy="take this part out of the patch, or diff it again",
            )  # fmt: skip

    def _check_modes(self, header: _GitHeader) -> None:
        modes = [value.strip() for key, value in header.fields.items() if key.endswith("mode")]
        modes += header.fields.get("index", b"").split()[1:]
        for mode in modes:
            if mode in _LINK_MODES:
                raise SymlinkError(
                    self.name,
                    f"{_LINK_MODES[mode]} (mode {mode.decode()})",
                    file=header.path,
                    line=header.line,
                    cause="a link can point out of the tree, and an arm is made of plain files only",
                    remedy="take the link out of the patch",
                )  # fmt: skip
        created = [value.strip() for key, value in header.fields.items() if key == "new file mode"]
        if {"old mode", "new mode"} & header.fields.keys() or any(mode != _PLAIN_MODE for mode in created):
            raise self._mode_change(header)

    def _mode_change(self, header: _GitHeader) -> PatchError:
        shown = ", ".join(
            f"{key} {value.decode('ascii', 'replace').strip()}"
            for key, value in header.fields.items()
            if key.endswith("mode")
        )
        return ModeChangeError(
            self.name, f"a file mode is set: {shown}", file=header.path, line=header.line,
            cause="arms are compared by content; a mode would be lost without a word",
            remedy="take the mode lines out of the patch (git config core.fileMode false)",
        )  # fmt: skip
