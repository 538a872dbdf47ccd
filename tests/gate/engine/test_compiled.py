"""Compiled code of a boot: what was loaded, what was compiled, and caches that are never used again."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.engine.compiled import (
    CompiledCode,
    PoisonedLineageError,
    compiled_code,
    lineage_problem,
    poison,
    require_clean,
)
from ci.engine.logtext import read_log

INFO = "(EngineCore pid=7) INFO 01-02 03:04:05"
LOADS = f"{INFO} [decorators.py:312] Directly load AOT compilation from path /c/a\n"
COMPILES = f"{INFO} [backends.py:394] Compiling a graph for compile range (1, 2048) takes 4.21 s\n"
SAVES = f"{INFO} [decorators.py:709] saved AOT compiled function to /c/b\n"
CACHES = f"{INFO} [backends.py:379] Cache the graph of compile range (1, 2048) for later use\n"
LOADS_RANGE = (
    f"{INFO} [backends.py:286] Directly load the compiled graph(s) for compile range (1, 2048) "
    "from the cache, took 0.214 s\n"
)


@pytest.mark.parametrize(
    ("log", "loaded", "compiled"),
    [
        (COMPILES * 2 + CACHES + SAVES, 0, 4),
        # A range whose first graph was compiled and whose last one was loaded.
        (CACHES + LOADS_RANGE, 1, 1),
        (LOADS * 2, 2, 0),
        (LOADS + COMPILES + SAVES, 1, 2),
        ("INFO 01-02 03:04:05 [x.py:1] torch.compile took 1.61 s in total\n", 0, 0),
    ],
)
def test_counts(log: str, loaded: int, compiled: int) -> None:
    """Loading and compiling are told apart by their lines; the time of torch.compile proves neither."""
    found = compiled_code(read_log(log.encode()))
    assert found == CompiledCode(loaded, compiled)
    assert found.mixed is (loaded > 0 and compiled > 0)


@pytest.mark.parametrize("kind", ["fresh", "disabled", "shared:reference"])
def test_mixed_boot_is_flagged(kind: str) -> None:
    """Loading one module and recompiling another is a problem in every lineage."""
    problem = lineage_problem(kind, CompiledCode(1, 2), "warm")
    assert problem is not None
    assert "loaded 1 and recompiled 2 modules" in problem


@pytest.mark.parametrize(
    ("kind", "loaded", "compiled", "said", "fine"),
    [
        ("fresh", 0, 3, "cold", True),
        ("fresh", 2, 0, "warm", False),
        ("fresh", 0, 0, "unknown", False),
        ("fresh", 0, 0, "eager", False),
        ("disabled", 0, 0, "disabled", True),
        ("disabled", 0, 3, "cold", True),
        ("disabled", 2, 0, "warm", False),
        ("shared:reference", 0, 3, "cold", True),
        ("shared:reference", 2, 0, "warm", True),
        ("shared:reference", 0, 0, "disabled", False),
    ],
)
def test_lineage(kind: str, loaded: int, compiled: int, said: str, fine: bool) -> None:
    """The log has to prove the lineage that the profile names."""
    assert (lineage_problem(kind, CompiledCode(loaded, compiled), said) is None) is fine


def test_poisoned_cache_is_never_reused(tmp_path: Path) -> None:
    """Once a mixed boot has written into a cache, the next boot is refused and told to begin anew."""
    require_clean(tmp_path)
    poison(tmp_path, "boot 003-A loaded 1 and recompiled 2 modules")
    with pytest.raises(PoisonedLineageError, match="boot 003-A loaded 1") as caught:
        require_clean(tmp_path)
    assert str(tmp_path) in caught.value.what
    assert "--fresh" in (caught.value.remedy or "")
