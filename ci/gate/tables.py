"""Hand-written TOML files of the gate: typed, strict, with the line of a mistake."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec

from ci.errors import GateError

T = TypeVar("T", bound=msgspec.Struct)
_INDEX = re.compile(r"\$\.(\w+)\[(\d+)\]")


def decode_table(text: str, path: Path, kind: type[T], error: type[GateError]) -> T:
    """Decode TOML into ``kind``; mistakes raise ``error`` with the file and, where known, the line."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise error(f"{path}: no valid TOML: {problem}", remedy=f"mend {path}") from problem
    try:
        return msgspec.convert(data, kind, strict=True)
    except msgspec.ValidationError as problem:
        match = _INDEX.search(str(problem))
        line = table_line(text, match.group(1), int(match.group(2))) if match else None
        raise error(
            f"{place(path, line)}: {problem}", remedy=f"mend {path}; docs/policy.md lists the fields"
        ) from (problem)


def table_line(text: str, name: str, index: int) -> int | None:
    """Return the line of the ``index``-th ``[[name]]`` table, counting both from where people count."""
    headers = [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if re.fullmatch(rf"\s*\[\[\s*{re.escape(name)}\s*\]\]\s*(#.*)?", line)
    ]
    return headers[index] if index < len(headers) else None


def place(path: Path, line: int | None) -> str:
    """Return ``path:line``, or the path alone."""
    return f"{path}:{line}" if line is not None else str(path)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    # fnmatch's translation stays linear however many stars there are.
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


def matches(pattern: str, name: str) -> bool:
    """Tell whether the whole ``name`` fits; only ``*`` and ``?`` are special, brackets are not."""
    return _compiled(pattern).fullmatch(name) is not None
