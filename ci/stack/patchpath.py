"""Paths inside a patch: unquoting, ``-pN``, and what a path may not be."""

from __future__ import annotations

import re

from ci.stack.errors import EncodingError, PathOutsideError

DEV_NULL = b"/dev/null"
_EPOCH = re.compile(rb"\t(1970-01-01|1969-12-31)[ T]")
"""Time stamp by which a plain ``diff -N`` marks the side on which a file does not exist."""
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_LETTERS = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
}  # fmt: skip


def header_path(raw: bytes, strip: int, patch: str, line: int) -> str | None:
    """The path of a ``---`` or ``+++`` line, or None where the file does not exist on that side.

    Args:
        raw: what follows the mark, without its line end.
        strip: leading folders to drop.
        patch, line: for messages.
    """
    if _EPOCH.search(raw):
        return None
    name = raw if raw.startswith(b'"') else raw.split(b"\t")[0]
    if name.strip() == DEV_NULL:
        return None
    return clean_path(name, strip, patch, line)


def clean_path(raw: bytes, strip: int, patch: str, line: int) -> str:
    """Unquote, check and strip one path.

    Raises:
        PathOutsideError: it is absolute, leaves the tree, or nothing is left of it.
        EncodingError: it is no UTF-8.
    """
    name = _unquote(raw)
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EncodingError(patch, f"path {name!r} is not UTF-8", line=line) from error
    problem = _problem(text)
    parts = text.split("/")[strip:]
    if problem is None and not all(parts):
        problem = "has an empty part"
    if problem is None and not parts:
        problem = f"has too few folders for -p{strip}"
    if problem:
        raise PathOutsideError(
            patch,
            f"path {text!r} {problem}",
            line=line,
            cause="a patch may only name files inside the tree that it patches",
            remedy="correct the path, or the -pN of the patch in the series",
        )
    return "/".join(parts)


def git_header_path(line: bytes, strip: int, patch: str, number: int) -> str | None:
    """The path of ``diff --git a/X b/X``, or None if its two names differ (a rename names them again)."""
    rest = line.removeprefix(b"diff --git ").rstrip(b"\r\n")
    if rest.startswith(b'"'):
        old, _, new = rest.rpartition(b" ")
    else:
        middle = len(rest) // 2
        if rest[middle : middle + 1] != b" ":
            return None
        old, new = rest[:middle], rest[middle + 1 :]
    first, second = (clean_path(side, strip, patch, number) for side in (old, new))
    return first if first == second else None


def _problem(text: str) -> str | None:
    parts = text.split("/")
    if text.startswith("/") or re.match(r"[A-Za-z]:", text):
        return "is absolute"
    if ".." in parts:
        return "leads out of the tree"
    if "." in parts:
        return "has a '.' in it"
    if "\\" in text or any(ord(char) < 32 for char in text):
        return "has a backslash or a control character"
    return None


def _unquote(raw: bytes) -> bytes:
    """Undo git's C-style quoting; an unquoted name comes back as it is."""
    if len(raw) < 2 or raw[:1] != b'"' or raw[-1:] != b'"':
        return raw

    def letter(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8) & 255]) if len(code) == 3 else _LETTERS.get(code, code)

    return _ESCAPE.sub(letter, raw[1:-1])
