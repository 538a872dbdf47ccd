"""Read one hunk of a unified diff by its counts, and check that nothing is left over."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ci.stack.errors import CorruptPatchError, EmptyPatchError, LostSpaceError, PatchError
from ci.stack.patchmodel import Hunk

HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_SIGNATURE = re.compile(rb"-- ?\r?\n")
"""The line by which a mail program sets off what follows; git format-patch ends in it."""
_NO_NEWLINE = b"\\"
"""First character of "\\ No newline at end of file" (the words are translated)."""


def read_hunk(lines: Sequence[bytes], at: int, number: int, patch: str, path: str) -> tuple[Hunk, int]:
    """Read the hunk whose ``@@`` line is ``lines[at]``.

    Args:
        lines: the patch file, each line with its line end.
        at: index of the ``@@`` line.
        number: position of the hunk in its file, from 1.
        patch, path: for messages.

    Returns:
        The hunk, and the index of the first line after it.

    Raises:
        CorruptPatchError, LostSpaceError, EmptyPatchError: with patch, file, hunk and line.
    """
    return _HunkReader(lines, at, number, patch, path).read()


class _HunkReader:
    def __init__(self, lines: Sequence[bytes], at: int, number: int, patch: str, path: str) -> None:
        match = HUNK.match(lines[at])
        assert match is not None  # noqa: S101  # the caller looked
        self.old_start = int(match[1])
        self.old_left, self.new_left = (int(match[group] or b"1") for group in (2, 4))
        self.lines, self.start, self.at = lines, at, at + 1
        self.number, self.patch, self.path = number, patch, path
        self.body: list[bytes] = []

    def read(self) -> tuple[Hunk, int]:
        while self.old_left or self.new_left:
            self._take(self._line())
            self.at += 1
        if self._line().startswith(_NO_NEWLINE):
            self._end_without_newline()
            self.at += 1
        self._check()
        self._check_after()
        return Hunk(self.number, self.start + 1, self.old_start, tuple(self.body)), self.at

    def _line(self) -> bytes:
        return self.lines[self.at] if self.at < len(self.lines) else b""

    def _take(self, line: bytes) -> None:
        mark = line[:1]
        if mark == _NO_NEWLINE and self.body:
            self._end_without_newline()
            return
        if line in (b"\n", b"\r\n"):
            raise self._lost_space()
        if mark not in (b" ", b"-", b"+") or not mark:
            raise self._corrupt(f"{self._left()} more, but {self._shown(line)}")
        self.old_left -= mark != b"+"
        self.new_left -= mark != b"-"
        if self.old_left < 0 or self.new_left < 0:
            raise self._corrupt("more lines of one side than its @@ line says")
        if not line.endswith(b"\n"):
            raise self._corrupt("the patch file ends in the middle of this line")
        self.body.append(line)

    def _left(self) -> str:
        return f"its @@ line promises {self.old_left} old and {self.new_left} new lines"

    @staticmethod
    def _shown(line: bytes) -> str:
        if not line:
            return "the patch ends here"
        return f"here is {line.rstrip().decode('utf-8', 'replace')!r}"

    def _end_without_newline(self) -> None:
        self.body[-1] = self.body[-1].removesuffix(b"\n")

    def _check(self) -> None:
        if all(line[:1] == b" " for line in self.body):
            raise EmptyPatchError(
                self.patch, "only context, nothing is changed", file=self.path, hunk=self.number,
                line=self.start + 1,
            )  # fmt: skip
        sides = [[line[1:] for line in self.body if line[:1] != other] for other in (b"+", b"-")]
        if sides[0] == sides[1]:
            raise EmptyPatchError(
                self.patch, "both sides are the same, nothing is changed", file=self.path, hunk=self.number,
                line=self.start + 1, remedy="take the hunk out of the patch, or diff it again",
            )  # fmt: skip
        for side in (b"+", b"-"):
            lines = [line for line in self.body if line[:1] != side]
            if any(not line.endswith(b"\n") for line in lines[:-1]):
                raise self._corrupt("'No newline at end of file' stands before the last line")

    def _check_after(self) -> None:
        """Lines right behind a full hunk that look like more of it mean that its counts are wrong."""
        at = self.at
        while at < len(self.lines) and self.lines[at] in (b"\n", b"\r\n"):
            at += 1
        line = self.lines[at] if at < len(self.lines) else b""
        header = (
            line.startswith(b"--- ") and at + 1 < len(self.lines) and self.lines[at + 1].startswith(b"+++ ")
        )
        if line[:1] in (b" ", b"+", b"-") and line and not header and not _SIGNATURE.fullmatch(line):
            self.at = at
            raise self._corrupt(f"the hunk is complete by its @@ line, but {self._shown(line)}")

    def _lost_space(self) -> PatchError:
        return LostSpaceError(
            self.patch,
            "an empty line where the hunk still has context to come",
            file=self.path, hunk=self.number, line=self.at + 1,
            cause="an editor stripped the space that marks an empty context line",
            remedy=f"put the space back (sed -i '{self.at + 1}s/^$/ /' {self.patch}), or diff again",
        )  # fmt: skip

    def _corrupt(self, what: str) -> PatchError:
        return CorruptPatchError(
            self.patch, f"corrupt: {what}", file=self.path, hunk=self.number, line=self.at + 1,
            cause="the hunk was edited by hand without its counts, or cut",
            remedy="diff again, or correct the counts of the @@ line (recountdiff does it)",
        )  # fmt: skip
