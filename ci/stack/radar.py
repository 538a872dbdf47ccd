"""The series against many releases, a few at a time; a release that is judged stays judged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ci.errors import GateError
from ci.results.drift import DRIFT_SCHEMA, ReleaseFate
from ci.results.files import read_limited, write_atomic
from ci.stack.drift import judge_series
from ci.stack.locate import WheelSource
from ci.stack.patchmodel import Patch
from ci.stack.pin import Pin
from ci.stack.progress import Progress
from ci.stack.ranges import Counted
from ci.stack.releases import check_version, locate_release, open_release
from ci.stack.series import Series

PARALLEL = 3
"""Releases looked at in one go; most of the time goes into pip finding the wheel."""
MAX_FATE_BYTES = 16 * 1024 * 1024

Locate = Callable[[str, Pin, Path], tuple[Pin, WheelSource]]


@dataclass(frozen=True)
class Seen:
    """One release, and what it cost to look at it."""

    fate: ReleaseFate
    counted: Counted
    cached: bool


def scan(
    series: Series,
    versions: Sequence[str],
    pin: Pin,
    cache: Path,
    progress: Progress,
    locate: Locate = locate_release,
) -> tuple[Seen, ...]:
    """Judge ``series`` on each of ``versions``, in their order.

    A release that cannot be fetched or trusted gets a fate with its problem, and
    does not keep the others from being judged.
    """
    progress.begin("judging releases", len(versions))

    def one(version: str) -> Seen:
        seen = _one(series, version, pin, cache, locate)
        progress.advance(1)
        return seen

    try:
        with ThreadPoolExecutor(PARALLEL) as pool:
            return tuple(pool.map(one, versions))
    finally:
        progress.end()


def _one(series: Series, version: str, pin: Pin, cache: Path, locate: Locate) -> Seen:
    file = fate_file(series.patches, version, pin, cache)
    known = read_fate(file)
    if known is not None:
        return Seen(known, Counted(), cached=True)
    counted = Counted()
    try:
        release, source = locate(version, pin, cache)
        with open_release(release, source, cache) as (tree, counted):
            fates = judge_series(series.patches, tree)
            found = (release.wheel, release.wheel_sha256 or None, tree.record_sha256)
    except GateError as error:
        problem = " ".join(str(error).split())
        return Seen(ReleaseFate(DRIFT_SCHEMA, version, problem=problem), counted, cached=False)
    fate = ReleaseFate(DRIFT_SCHEMA, version, *found, fates)
    write_atomic(file, msgspec.json.format(msgspec.json.encode(fate), indent=1) + b"\n")
    return Seen(fate, counted, cached=False)


def fate_file(patches: Sequence[Patch], version: str, pin: Pin, cache: Path) -> Path:
    """Where the answer for one release is kept: under the patches' own bytes, since offsets count here."""
    digest = hashlib.sha256(f"{DRIFT_SCHEMA} {pin.key}".encode())
    for patch in patches:
        digest.update(f" {patch.name} {patch.file_hash}".encode())
    return cache / "drift" / f"{check_version(version)}-{digest.hexdigest()[:16]}.json"


def read_fate(file: Path) -> ReleaseFate | None:
    """A kept answer; None if there is none, or none that this version can read."""
    try:
        fate = msgspec.json.decode(read_limited(file, MAX_FATE_BYTES), type=ReleaseFate)
    except (GateError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return fate if fate.schema == DRIFT_SCHEMA else None
