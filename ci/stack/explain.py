"""Why a hunk or a file did not fit: the likely cause, found out after the fact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from ci.stack.errors import (
    AlreadyAppliedError,
    ContextMismatchError,
    LineEndingsError,
    NoNewlineError,
    NoSuchFileError,
    NotInFlavourError,
    PatchError,
)
from ci.stack.patchmodel import FileChange, Hunk, Patch
from ci.stack.place import anchored, matches, split_lines
from ci.stack.tree import Tree

MAX_HITS = 3
"""As many other places as a message names."""
WIDTH = 100
"""Characters of a line that a message shows."""

Lines = Sequence[bytes]


def no_such_file(patch: Patch, change: FileChange, path: str, tree: Tree) -> PatchError:
    """The error for a file that the patch changes and the tree does not have."""
    if tree.left_out(path):
        return NotInFlavourError(
            patch.name, "in the wheel, but not in the lean flavour, which has the .py files only", file=path,
            line=change.line, remedy="build the full flavour: python -m ci stack build --flavour full",
        )  # fmt: skip
    hits = list(islice(_moved_to(change, path, tree), MAX_HITS))
    cause = "removed or renamed upstream"
    if hits:
        cause = f"its hunks match in {', '.join(hits)}: renamed upstream?"
    return NoSuchFileError(
        patch.name,
        "no such file in this vLLM version",
        file=path,
        line=change.line,
        cause=cause,
        remedy=f"re-diff the patch against {hits[0]}"
        if hits
        else "drop this part, or correct the path or its -pN",
    )


def _moved_to(change: FileChange, path: str, tree: Tree) -> Iterator[str]:
    """Other files in which every hunk's old side stands, those of the same name first."""
    wanted = [b"".join(hunk.old) for hunk in change.hunks if hunk.old]
    if not wanted:
        return
    suffix = path.rpartition(".")[2]
    same = sorted(
        (other for other in tree.paths() if other.rpartition(".")[2] == suffix),
        key=lambda other: (other.rpartition("/")[2] != path.rpartition("/")[2], other),
    )
    for other in same:
        data = tree.read(other) or b""
        if all(block in data for block in wanted):
            yield other


def not_emptied(patch: Patch, path: str, rest: Lines) -> PatchError:
    """The error for a deletion that leaves lines behind."""
    return ContextMismatchError(
        patch.name,
        f"the patch removes the file, but not {len(rest)} of its lines, first {_show(rest[0])}",
        file=path,
        cause="this vLLM version has more in the file than the patch was cut against",
    )


def refuse_foreign_endings(patch: Patch, path: str, lines: Lines, hunk: Hunk) -> None:
    """Refuse added lines that end otherwise than every line of the file.

    Raises:
        LineEndingsError: with the hunk.
    """
    for crlf in (True, False):
        if lines and hunk.added and _uniform(lines, crlf) and not _uniform(hunk.added, crlf):
            raise _endings(
                patch, path, hunk, "an added line", "LF" if crlf else "CRLF", "CRLF" if crlf else "LF"
            )


def mismatch(patch: Patch, change: FileChange, path: str, lines: Lines, hunk: Hunk, floor: int) -> PatchError:
    """The error for a hunk that stands nowhere, most telling cause first."""
    return (
        _line_endings(patch, path, lines, hunk)
        or _already_applied(patch, change, path, lines)
        or _newline_at_end(patch, path, lines, hunk)
        or _other_place(patch, path, lines, hunk, floor)
        or _context(patch, path, lines, hunk)
    )


def _line_endings(patch: Patch, path: str, lines: Lines, hunk: Hunk) -> PatchError | None:
    bare = [_bare(line) for line in lines]
    if not matches(bare, [_bare(line) for line in hunk.old]):
        return None
    patch_has = "CRLF" if any(line.endswith(b"\r\n") for line in hunk.old) else "LF"
    file_has = "CRLF" if _uniform(lines, True) else "LF" if _uniform(lines, False) else "mixed"
    if patch_has == file_has:
        return None
    return _endings(patch, path, hunk, "the patch", patch_has, file_has)


def _endings(patch: Patch, path: str, hunk: Hunk, who: str, has: str, file_has: str) -> LineEndingsError:
    return LineEndingsError(
        patch.name,
        f"line endings: {who} has {has}, the file {file_has}",
        file=path,
        hunk=hunk.number,
        line=hunk.line,
        cause="an editor or a checkout converted one of them; the lines are otherwise the same",
        remedy="re-diff with the endings of the wheel's file, and mark *.patch -text in .gitattributes",
    )


def _already_applied(patch: Patch, change: FileChange, path: str, lines: Lines) -> PatchError | None:
    floor = 0
    for hunk in change.hunks:
        places = matches(lines, hunk.new, floor) if hunk.new else []
        if not places:
            return None
        floor = places[0] + len(hunk.new)
    return AlreadyAppliedError(
        patch.name,
        "already applied: the file has the new side of every hunk",
        file=path,
        cause="this vLLM version, or an earlier patch of the series, brings the change",
        remedy="drop this part of the patch, or the earlier one",
    )


def _newline_at_end(patch: Patch, path: str, lines: Lines, hunk: Hunk) -> PatchError | None:
    if not lines or lines[-1].endswith(b"\n") == hunk.old[-1].endswith(b"\n"):
        return None
    closed = [_closed(line) for line in lines]
    wanted = [_closed(line) for line in hunk.old]
    if len(lines) - len(wanted) not in matches(closed, wanted):
        return None
    file_ends = lines[-1].endswith(b"\n")
    return NoNewlineError(
        patch.name,
        "no newline at end of file: "
        + (
            "the patch says so, but the file has one"
            if file_ends
            else "true of the file, but the patch does not say so"
        ),
        file=path,
        hunk=hunk.number,
        line=hunk.line,
        cause="the '\\ No newline at end of file' line was lost or added",
        remedy="re-diff the patch against the pinned wheel, and keep that line",
    )


def _other_place(patch: Patch, path: str, lines: Lines, hunk: Hunk, floor: int) -> PatchError | None:
    """The lines are there, but before the previous hunk or away from the file's start or end."""
    places = matches(lines, hunk.old)
    if not places:
        return None
    line = places[0] + 1
    if all(not anchored(hunk, at, len(lines)) for at in places):
        edge = "start" if hunk.at_start and places[0] else "end"
        what = f"its lines stand at line {line}, but the hunk was cut at the {edge} of the file"
        cause = f"this vLLM version has more lines at the {edge}"
    else:
        what = f"its lines stand at line {line}, before the end of the previous hunk (line {floor})"
        cause = "the hunks overlap, or their order is not that of the file"
    return ContextMismatchError(patch.name, what, file=path, hunk=hunk.number, line=hunk.line, cause=cause)


def _context(patch: Patch, path: str, lines: Lines, hunk: Hunk) -> PatchError:
    """Name the first line that differs, at the place where most of the hunk fits."""
    at = best_place(lines, hunk)
    wrong = next((i for i, line in enumerate(hunk.old) if _line_at(lines, at + i) != line), 0)
    expected, found = hunk.old[wrong], _line_at(lines, at + wrong)
    same = sum(_line_at(lines, at + i) == line for i, line in enumerate(hunk.old))
    what = (
        f"context does not match: {same} of {len(hunk.old)} lines fit at line {at + 1}\n"
        f"    expected (line {at + wrong + 1}): {_show(expected)}\n"
        f"    found:    {' ' * len(str(at + wrong + 1))}        {_show(found)}"
    )
    blank = found is not None and b"".join(expected.split()) == b"".join(found.split())
    cause = (
        "only white space differs"
        if blank
        else "this vLLM version has other lines there than the patch expects"
    )
    return ContextMismatchError(patch.name, what, file=path, hunk=hunk.number, line=hunk.line, cause=cause)


def best_place(lines: Lines, hunk: Hunk) -> int:
    """The index at which most old lines fit, the one nearest to the stated among equals."""
    votes: dict[int, int] = {}
    index: dict[bytes, list[int]] = {}
    for at, line in enumerate(lines):
        index.setdefault(line, []).append(at)
    for i, line in enumerate(hunk.old):
        for at in index.get(line, []):
            votes[at - i] = votes.get(at - i, 0) + 1
    votes = {at: count for at, count in votes.items() if at >= 0} or {min(hunk.stated, len(lines)): 0}
    return min(votes, key=lambda at: (-votes[at], abs(at - hunk.stated)))


def _line_at(lines: Lines, at: int) -> bytes | None:
    return lines[at] if 0 <= at < len(lines) else None


def _show(line: bytes | None) -> str:
    if line is None:
        return "(end of file)"
    return repr(line.decode("utf-8", "replace"))[:WIDTH]


def _bare(line: bytes) -> bytes:
    return line.removesuffix(b"\r\n").removesuffix(b"\n").removesuffix(b"\r")


def _closed(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n"


def _uniform(lines: Lines, crlf: bool) -> bool:
    """True if every complete line ends in CRLF (or in LF alone)."""
    return all(line.endswith(b"\r\n") == crlf for line in lines if line.endswith(b"\n"))


__all__ = ["best_place", "mismatch", "no_such_file", "not_emptied", "refuse_foreign_endings", "split_lines"]
