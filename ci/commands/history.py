"""What was accepted when: the baselines as git has them, commit by commit."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ci.report.charts import Point
from ci.results.aa import AA_FILE
from ci.results.jsonl import is_slug
from ci.results.records import BaselineRecord

MAX_COMMITS = 50
"""Per file, the newest; older values say little about today's machine."""
TIMEOUT_S = 60
Key = tuple[str, str, str, str]
_DECODER = msgspec.json.Decoder(BaselineRecord)


def read_history(baselines: Path) -> dict[Key, list[Point]]:
    """Return the accepted values of every metric, oldest first, each where it changed.

    A folder outside of git, or a machine without git, has no history; that is
    no error, for the history decides nothing.
    """
    history: dict[Key, list[Point]] = {}
    for path in sorted(baselines.glob("*/*.jsonl")):
        if path.name != AA_FILE and is_slug(path.stem) and is_slug(path.parent.name):
            _add_file(history, path)
    return history


def _add_file(history: dict[Key, list[Point]], path: Path) -> None:
    for day, content in _versions(path):
        for line in content.splitlines():
            try:
                record = _DECODER.decode(line)
            except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
                continue  # the head, or a line of an older schema
            key = (path.parent.name, path.stem, record.case, record.metric)
            points = history.setdefault(key, [])
            if not points or points[-1].value != record.value:
                points.append(Point(day, record.value))


def _versions(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (ISO date, content) of the file's newest commits, oldest first."""
    log = git(path.parent, "log", f"-{MAX_COMMITS}", "--format=%H %cs", "--", path.name)
    for line in reversed((log or b"").decode("ascii", "replace").splitlines()):
        commit, _, day = line.partition(" ")
        content = git(path.parent, "show", f"{commit}:./{path.name}")
        if content is not None:  # a commit that deleted the file
            yield day, content


def git(folder: Path, *arguments: str) -> bytes | None:
    """Return what git prints, or None if it cannot answer."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, check=False, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
