"""What ``python -m ci quality`` asks the arms: texts and word problems, read before anything boots."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ci.errors import GateError, UsageError
from ci.gate.quality_records import ALL
from ci.results.files import read_limited

TEXTS_VARIABLE = "FORKPROOF_QUALITY_TEXTS"
MATHS_VARIABLE = "FORKPROOF_GSM8K"
PART_CHARS = 8000
TEXT_LIMIT_BYTES = 16 << 20


class WordProblem(msgspec.Struct, frozen=True):
    """A word problem as GSM8K has them; further fields are left alone."""

    question: str
    answer: str


def read_texts(folder: str | None) -> dict[str, list[str]]:
    """The texts of a folder, by the name of their file, in parts that end with a line.

    Raises:
        UsageError: no folder is named, it has no text, or a file in it is none or cannot name one.
    """
    remedy = f"export {TEXTS_VARIABLE}=FOLDER with en.txt, da.txt, code.txt"
    if not folder:
        raise UsageError(f"{TEXTS_VARIABLE} is not set: there is no text to score", remedy=remedy)
    files = sorted(Path(folder).glob("*.txt"))
    # lm-eval separates tasks by commas and parts of a file's name by underscores, and takes wildcards.
    if bad := [
        path.name for path in files if path.stem == ALL or not re.fullmatch("[A-Za-z0-9-]+", path.stem)
    ]:
        words = f"letters, digits and hyphens, and not {ALL}, which stands for all texts"
        raise UsageError(f"{folder}: {bad[0]!r} cannot name a text", remedy=f"a name of {words}")
    try:
        texts = {path.stem: parts_of(read_limited(path, TEXT_LIMIT_BYTES).decode("utf-8")) for path in files}
    except UnicodeDecodeError as error:
        raise UsageError(f"{folder}: a file is not UTF-8: {error}", remedy=remedy) from error
    if not texts or not all(texts.values()):
        raise UsageError(f"{folder}: holds no text, or an empty one", remedy=remedy)
    return texts


def read_maths(path: Path) -> list[WordProblem]:
    """The word problems of a file, one JSON object a line.

    Raises:
        UsageError: it cannot be read, holds none, or a line is none.
    """
    remedy = f"export {MATHS_VARIABLE}=FILE with question and answer in each line, or unset it"
    try:
        lines = read_limited(path, TEXT_LIMIT_BYTES).splitlines()
    except GateError as error:
        raise UsageError(f"{MATHS_VARIABLE}: {error.what}", remedy=remedy) from error
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found += [msgspec.json.decode(line, type=WordProblem)] if line.strip() else []
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UsageError(f"{MATHS_VARIABLE}: {path}: line {number}: {error}", remedy=remedy) from error
    if not found:
        raise UsageError(f"{MATHS_VARIABLE}: {path}: holds no word problem", remedy=remedy)
    return found


def parts_of(text: str) -> list[str]:
    """Lines joined to parts of about so many characters."""
    found: list[str] = []
    part = ""
    for line in text.splitlines(keepends=True):
        if part and len(part) + len(line) > PART_CHARS:
            found.append(part)
            part = ""
        part += line
    return [one for one in [*found, part] if one.strip()]
