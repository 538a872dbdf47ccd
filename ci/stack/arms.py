"""Arms: the stock tree with a prefix of the series applied, ready to stand first on PYTHONPATH.

An arm's unchanged files are hard links into the stock tree (copies where the
file system has no links); its changed files are its own.  An arm's folder
appears by one rename when it is complete, under a name that carries the hash of
its patches, so a failing patch touches no arm that is there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.errors import GateError
from ci.results.files import write_atomic
from ci.stack.apply import Applied, apply_series
from ci.stack.cache import cache_root as default_cache
from ci.stack.cache import locked, new_folder, unwritable
from ci.stack.errors import CacheError
from ci.stack.locate import WheelSource, locate_wheel
from ci.stack.manifest import (
    MANIFEST,
    MANIFEST_SCHEMA,
    ArmManifest,
    FilePair,
    Offset,
    PatchEntry,
    read_manifest,
    write_manifest,
)
from ci.stack.pin import PIN, Pin
from ci.stack.place import Placement
from ci.stack.plan import ArmPlan, choose_plan, choose_plans, plan_arms
from ci.stack.progress import Progress, Silent
from ci.stack.record import Flavour, sha256_of
from ci.stack.series import Series, read_series, series_folder
from ci.stack.tree import DiskTree, walk_files
from ci.stack.wheel import Locate, StockTree, stock_tree


@dataclass(frozen=True)
class Arm:
    """One built arm."""

    name: str
    root: Path
    """The folder to put first on PYTHONPATH: holds vllm/ and its metadata folder."""
    manifest: ArmManifest
    reused: bool = False
    """True if it was in the cache already, and whole."""


@dataclass(frozen=True)
class Build:
    """What one build did."""

    series: Series
    stock: StockTree
    arms: tuple[Arm, ...]
    placements: tuple[Placement, ...]
    """Every hunk of the patches that the built arms have."""
    seconds: float


def build(
    series: Series | str | Path | None = None,
    cache_root: Path | None = None,
    flavour: Flavour = Flavour.LEAN,
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
    pin: Pin = PIN,
    locate: Locate = locate_wheel,
) -> Build:
    """Build arms, or find them in the cache.

    Args:
        series: the series or its folder; None for ``$FORKPROOF_SERIES`` or the project's own.
        cache_root: None for ``$FORKPROOF_CACHE`` or the user's cache folder.
        flavour: how much of the wheel the arms have.
        names: arms to build; None for all of the series.
        progress: what long steps report to.
        pin: the wheel.
        locate: how the wheel is found.

    Raises:
        StackError: the first thing that stands in the way; no arm is left half-made.

    A cache that cannot be written serves as long as everything asked for is whole in it.
    """
    started = time.monotonic()
    progress, cache = progress or Silent(), default_cache(cache_root)
    read = series if isinstance(series, Series) else read_series(series_folder(series))
    plans = choose_plans(plan_arms(read), names)
    with locked(cache, lambda: progress.say("another build holds the cache: waiting for it")) as barred:
        stock = _stock(pin, flavour, cache, progress, _absent(cache, barred) if barred else locate, barred)
        tree = DiskTree(stock.root, frozenset(stock.record.files))
        applied = apply_series(max(plans, key=lambda plan: len(plan.patches)).patches, tree)
        maker = _Maker(pin, stock, cache, applied, barred)
        arms = tuple(maker.make(plan) for plan in plans)
    placements = tuple(placement for patch in applied for placement in patch.placements)
    return Build(read, stock, arms, placements, time.monotonic() - started)


def build_arms(
    series: Series | str | Path | None = None,
    cache_root: Path | None = None,
    flavour: Flavour = Flavour.LEAN,
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> list[Arm]:
    """The arms that ``build`` makes, in order of the series."""
    return list(build(series, cache_root, flavour, names, progress).arms)


def find_arm(
    name: str | None,
    series: Series | str | Path | None = None,
    cache_root: Path | None = None,
    flavour: Flavour = Flavour.LEAN,
    progress: Progress | None = None,
) -> Arm:
    """The arm called ``name``, or the whole series, built if it is not in the cache."""
    read = series if isinstance(series, Series) else read_series(series_folder(series))
    return build_arms(read, cache_root, flavour, [choose_plan(plan_arms(read), name).name], progress)[0]


def find_arms_up_to(
    name: str | None,
    series: Series | str | Path | None = None,
    cache_root: Path | None = None,
    flavour: Flavour = Flavour.LEAN,
    progress: Progress | None = None,
) -> list[Arm]:
    """The arm called ``name``, last, after every arm with fewer patches; built where not in the cache.

    Without a name it is the whole series.

    A check that tells where a behaviour entered the series runs on these side by side.
    """
    read = series if isinstance(series, Series) else read_series(series_folder(series))
    return build_arms(read, cache_root, flavour, names_up_to(name, read), progress)


def names_up_to(name: str | None, series: Series | str | Path | None = None) -> list[str]:
    """The names of the arms of ``find_arms_up_to``; nothing is built."""
    plans = plan_arms(series if isinstance(series, Series) else read_series(series_folder(series)))
    wanted = choose_plan(plans, name)
    return [*(plan.name for plan in plans if len(plan.patches) < len(wanted.patches)), wanted.name]


def arm_folder(plan: ArmPlan, pin: Pin, flavour: Flavour, cache: Path) -> Path:
    """Where an arm is, if it was built."""
    return cache / "arms" / f"{pin.key}-{flavour.value}" / f"{plan.name}-{plan.series_hash[:12]}"


def _stock(
    pin: Pin, flavour: Flavour, cache: Path, progress: Progress, locate: Locate, barred: str | None
) -> StockTree:
    try:
        return stock_tree(pin, flavour, cache, progress, locate)
    except OSError as error:
        if not barred:
            raise
        # A wheel is kept in the cache, and there is no place to unpack it in.
        raise _tree_lacking(cache, barred) from error


def _tree_lacking(cache: Path, why: str) -> CacheError:
    return unwritable(cache, f"the stock tree is not in it whole, and it cannot be written: {why}")


def _absent(cache: Path, why: str) -> Locate:
    """A search for the wheel that ends before anything slow is begun: nothing could be unpacked."""

    def refuse(*_: object) -> WheelSource:
        raise _tree_lacking(cache, why)

    return refuse


class _Maker:
    """Makes arms out of one stock tree and one applied series."""

    def __init__(
        self, pin: Pin, stock: StockTree, cache: Path, applied: Sequence[Applied], barred: str | None
    ) -> None:
        self.pin, self.stock, self.cache, self.applied = pin, stock, cache, applied
        self.barred = barred
        """Why the cache cannot be written, if it cannot."""
        self.listed = stock.expected

    def make(self, plan: ArmPlan) -> Arm:
        changed: dict[str, bytes | None] = {}
        for applied in self.applied[: len(plan.patches)]:
            changed |= applied.files
        manifest = self._manifest(plan, changed)
        root = arm_folder(plan, self.pin, self.stock.flavour, self.cache)
        if self._whole(root, manifest):
            if not self.barred:
                _renew_manifest(root, manifest)
            return Arm(plan.name, root, manifest, reused=True)
        if self.barred:
            raise unwritable(
                self.cache, f"arm {plan.name} is not in it whole, and it cannot be written: {self.barred}"
            )
        try:
            with new_folder(root) as folder:
                self._fill(folder, changed)
                write_manifest(folder, manifest)
        except OSError as error:
            raise unwritable(root, f"cannot be written: {error.strerror or error}") from error
        return Arm(plan.name, root, manifest)

    def _manifest(self, plan: ArmPlan, changed: dict[str, bytes | None]) -> ArmManifest:
        pairs = {
            path: FilePair(self.listed.get(path), _sha256(data)) for path, data in sorted(changed.items())
        }
        placements = [place for applied in self.applied[: len(plan.patches)] for place in applied.placements]
        return ArmManifest(
            schema=MANIFEST_SCHEMA,
            arm=plan.name,
            vllm=self.pin.vllm,
            wheel_sha256=self.pin.wheel_sha256,
            flavour=self.stock.flavour.value,
            series_hash=plan.series_hash,
            patches=[PatchEntry(patch.name, patch.hunk_hash, patch.file_hash) for patch in plan.patches],
            files={path: pair for path, pair in pairs.items() if pair.stock != pair.patched},
            offsets=[Offset(p.patch, p.file, p.hunk, p.stated, p.found) for p in placements if p.offset],
        )

    def _whole(self, root: Path, manifest: ArmManifest) -> bool:
        """True if the arm has the manifest's files; links into the stock tree need no second hash."""
        if not (root / MANIFEST).is_file():
            return False
        expected = expected_files(self.listed, manifest)
        if set(walk_files(root)) != {MANIFEST, *expected}:
            return False
        for path, digest in expected.items():
            try:
                found = (root / path).lstat()
            except OSError:
                return False
            if path not in manifest.files and os.path.samestat(found, (self.stock.root / path).stat()):
                continue
            if sha256_of(root / path) != digest:
                return False
        return True

    def _fill(self, folder: Path, changed: dict[str, bytes | None]) -> None:
        made: set[Path] = set()
        for path in self.listed:
            if path in changed:
                continue
            target = folder / path
            if target.parent not in made:
                target.parent.mkdir(parents=True, exist_ok=True)
                made.add(target.parent)
            link_or_copy(self.stock.root / path, target)
        for path, data in changed.items():
            if data is not None:
                write_atomic(folder / path, data)
                (folder / path).chmod(0o444)


def _renew_manifest(root: Path, manifest: ArmManifest) -> None:
    """Same files, other words: a header was reworded, a patch renamed, or the manifest damaged."""
    try:
        if read_manifest(root) == manifest:
            return
    except GateError:
        pass  # unreadable is as good as another one: the files were just found to be right
    write_manifest(root, manifest)


def expected_files(listed: dict[str, str], manifest: ArmManifest) -> dict[str, str]:
    """sha256 by path of every file of the arm: as RECORD lists it, unless the manifest says otherwise."""
    after = {path: pair.patched for path, pair in manifest.files.items()}
    return {path: digest for path, digest in (listed | after).items() if digest is not None}


def link_or_copy(source: Path, target: Path) -> None:
    """Hard-link ``source`` at ``target``; copy it where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _sha256(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()
