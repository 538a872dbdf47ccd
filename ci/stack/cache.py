"""The cache folder: where things are in it, one builder at a time, nothing half-made in it.

::

    pip/                     a recent pip, if the environment's own is too old
    wheels/NAME.whl          a whole wheel, if it was downloaded
    trees/KEY-FLAVOUR/       the stock tree, every file as RECORD says
    arms/KEY-FLAVOUR/NAME-HASH/   one arm: links into the tree, changed files, arm.json
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ci.results.lock import held
from ci.stack.errors import CacheError

CACHE_VARIABLE = "FORKPROOF_CACHE"
TEMPORARY = ".new-"
"""Prefix of everything that is not finished."""


def cache_root(given: str | Path | None = None) -> Path:
    """The cache folder: the one given, ``$FORKPROOF_CACHE``, or ``forkproof`` in the user's cache folder."""
    named = given or os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser().resolve()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "forkproof"


def unwritable(root: Path, why: str) -> CacheError:
    """The error for a cache that would have to be written and cannot be."""
    remedy = f"set {CACHE_VARIABLE} to a folder that can be written and has space"
    return CacheError(f"{root}: {why}", remedy=remedy)


@contextmanager
def locked(root: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[str | None]:
    """Hold the cache: one process builds at a time, and a killed one leaves no lock behind.

    Args:
        root: the cache folder, made if absent.
        waiting: called once if another process holds the cache.

    Yields:
        None, or why nothing can be written there; such a cache is not held, and may only be read.

    Raises:
        CacheError: there is no folder, and none can be made.
    """
    with ExitStack() as stack:
        why = None
        try:
            stack.enter_context(held(root / "lock", "a build", math.inf, waiting))
        except OSError as error:
            why = error.strerror or str(error)
            if not root.is_dir():
                raise unwritable(root, f"cannot be used as cache: {why}") from error
        yield why


@contextmanager
def new_folder(final: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``final`` when the block ends well, and vanishes when it does not.

    What stood at ``final`` is replaced.  Call it with the cache held: leftovers of
    killed builds in the same parent are removed.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    for leftover in final.parent.glob(f"{TEMPORARY}*"):
        remove(leftover)
    temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=final.parent))
    try:
        temporary.chmod(0o755)
        yield temporary
        _swap(temporary, final)
    finally:
        remove(temporary)


def _swap(temporary: Path, final: Path) -> None:
    if final.exists():
        old = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=final.parent))
        os.replace(final, old / "old")
        os.replace(temporary, final)
        remove(old)
    else:
        os.replace(temporary, final)


def remove(path: Path) -> None:
    """Remove a file or a folder with all it holds, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
