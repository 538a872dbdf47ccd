"""Which compiled code a boot ran, and artifacts that must not be used again.

A boot that loads one compiled module from a cache and recompiles another writes an artifact that runs at full
speed in its own process and far slower wherever it is loaded, with equal text. Nothing in the cache shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ci.engine import patterns
from ci.engine.logtext import LogLine
from ci.errors import GateError
from ci.results.files import write_atomic

MARK = "POISONED"
"""A file in the folder of a lineage that no boot may use any more."""
SAVED = re.compile(r"saved AOT compiled function to ")


class PoisonedLineageError(GateError):
    """The compile cache was written by a boot that mixed loaded and recompiled modules."""


@dataclass(frozen=True)
class CompiledCode:
    """Lines of one boot's log about compiled modules."""

    loaded: int
    compiled: int

    @property
    def mixed(self) -> bool:
        """Whether this boot's own artifact is of the kind that poisons its cache."""
        return self.loaded > 0 and self.compiled > 0


def compiled_code(lines: Iterable[LogLine]) -> CompiledCode:
    """Count what was loaded and what was compiled.

    vLLM 0.27.1 says of a range of graphs that its last one was loaded or compiled, and that its first one was
    compiled (`Cache the graph`); of those between them it says nothing, except in its debug log.
    """
    loaded = compiled = 0
    for line in lines:
        loaded += bool(patterns.WARM.search(line.text))
        compiled += bool(patterns.COMPILED.search(line.text) or SAVED.search(line.text))
    return CompiledCode(loaded, compiled)


def lineage_problem(kind: str, code: CompiledCode, said: str) -> str | None:
    """What about its compiled code keeps a boot from being compared; None if nothing.

    Args:
        kind: the profile's lineage: `fresh`, `disabled` or `shared:ID`.
        code: of the boot.
        said: the lineage that the log proves: `cold`, `warm`, `disabled`, `eager` or `unknown`.
    """
    if code.mixed:
        return (
            f"it loaded {code.loaded} and recompiled {code.compiled} modules: "
            "what it wrote would run slower wherever it is loaded"
        )
    if kind == "fresh" and (code.loaded or said != "cold"):
        return f"its cache should have been empty, but its code is {said} ({code.loaded} modules loaded)"
    if kind == "disabled" and (code.loaded or said not in ("disabled", "cold")):
        return f"its cache should have been disabled, but its code is {said}"
    if kind.startswith("shared:") and said not in ("cold", "warm"):
        return f"it should share a compile cache, but its code is {said}"
    return None


def poison(folder: Path, why: str) -> None:
    """Let no boot use this cache again."""
    write_atomic(folder / MARK, f"{why}\n".encode())


def require_clean(folder: Path) -> None:
    """Refuse a cache that a mixed boot wrote into.

    Raises:
        PoisonedLineageError: with what that boot did.
    """
    mark = folder / MARK
    if mark.exists():
        raise PoisonedLineageError(
            f"{folder}: {mark.read_text(encoding='utf-8').strip()}",
            cause="an artifact of this kind is slow in every process that loads it, with equal text",
            remedy="begin anew with an empty cache: --fresh",
        )
