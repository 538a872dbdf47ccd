"""A throughput session on disk: boots in the order A B B A, each kept when it is done, whole blocks only.

What interrupts a session costs at most the block that was running: its boots are put aside, since a block
counts as one stretch on one machine. A session goes on under the conditions that it began with or not at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec

from ci.errors import GateError
from ci.results.aa import BLOCK
from ci.results.files import read_limited, write_atomic
from ci.results.throughput import SCHEMA_VERSION, BootMeasure, KeptSession, SessionHead

HEAD_FILE = "session.json"
BOOTS, ASIDE = "boots", "aside"
LINEAGE = "lineage"
"""Folder of a session's compile cache, where its boots share one: it begins and ends with the session."""
LIMIT_BYTES = 8 << 20
RUN = re.compile(r"[A-Za-z0-9-]{1,100}")

T = TypeVar("T")
BootOne = Callable[[int, str], BootMeasure]
"""Boots at a place of the order; the letter says which arm."""
Stop = Callable[[Sequence[BootMeasure]], str | None]
"""After a whole block: why no further boot is needed, or None."""
About = Callable[[SessionHead, Sequence[BootMeasure]], bool]
"""Something about a session that its boots tell."""
Ended = Callable[[SessionHead, Sequence[BootMeasure], KeptSession | None], bool]
"""The same, where it also matters which session it confirms."""


class SessionError(GateError):
    """A session's folder cannot be used for this session."""


class SessionOpenError(GateError):
    """A session is there that has not ended, and nobody said what to do with it."""


@dataclass(frozen=True)
class Opened:
    """The session that is to run now."""

    folder: Path
    head: SessionHead
    earlier: KeptSession | None
    """The session that this one confirms or not."""
    aside: tuple[Path, ...] = ()
    """Where that now lies which made room for it."""


@dataclass(frozen=True)
class Progress:
    """How far a session has come."""

    boots: tuple[BootMeasure, ...]
    """Of whole blocks, in their order."""
    stopped: str | None
    """Why it is complete; None if boots are left to run."""


def place_name(place: int) -> str:
    """The file of a boot."""
    return f"{place:03d}-{letter_at(place)}"


def letter_at(place: int) -> str:
    """Which arm runs at a place of the order."""
    return BLOCK[place % len(BLOCK)]


def read_head(folder: Path) -> SessionHead | None:
    """The session that a folder holds; None if there is none.

    Raises:
        SessionError: the file is damaged, or of another version.
    """
    path = folder / HEAD_FILE
    if not path.exists():
        return None
    remedy = "put it aside: --fresh"
    head = decoded(path, SessionHead, remedy)
    if head.schema != SCHEMA_VERSION:
        raise SessionError(f"{path}: schema {head.schema}, this reads {SCHEMA_VERSION}", remedy=remedy)
    if not RUN.fullmatch(head.run):  # it names a folder when the session is put aside
        raise SessionError(f"{path}: run {head.run[:40]!r} is no name of a session", remedy=remedy)
    return head


def decoded(path: Path, kind: type[T], remedy: str) -> T:
    """What a file of a session holds.

    Args:
        path: of the file.
        kind: what it has to be.
        remedy: of whatever is wrong with it.

    Raises:
        SessionError: it is damaged, too large or no file.
    """
    try:
        return msgspec.json.decode(read_limited(path, LIMIT_BYTES), type=kind, strict=True)
    except GateError as error:
        raise SessionError(error.what, remedy=remedy) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SessionError(f"{path}: {error}", remedy=remedy) from error


def begin(folder: Path, head: SessionHead) -> SessionHead:
    """Write down what the session is; whatever the folder holds is put aside, so no boot of it is adopted."""
    put_aside(folder)
    write_atomic(folder / HEAD_FILE, encoded(head))
    return head


def resumed(folder: Path, head: SessionHead) -> SessionHead:
    """The session in the folder, which `head` would go on with: only under equal conditions.

    Raises:
        SessionError: there is none, or it differs; what differs is named.
    """
    kept = read_head(folder)
    if kept is None:
        raise SessionError(
            f"{folder}: there is no session to go on with", remedy="begin one: leave --resume out"
        )
    differs = difference(kept, head)
    if differs:
        raise SessionError(
            f"{folder}: the session began under other conditions: {differs}",
            remedy="restore them, or begin a session of its own with --fresh",
        )
    return kept


def difference(kept: SessionHead, head: SessionHead) -> str | None:
    """What keeps two heads from being one session; run and start may differ."""
    for name in ("profile", "models", "arms", "points", "judge", "pairs"):
        before, now = getattr(kept, name), getattr(head, name)
        if before != now:
            return f"{name} was {before!r}, now {now!r}"
    for name in sorted({*kept.conditions, *head.conditions}):
        was, is_now = kept.conditions.get(name), head.conditions.get(name)
        if was != is_now:
            return f"{name} was {was!r}, now {is_now!r}"
    return None if kept.key == head.key else "the profile or an arm has changed"


def put_aside(folder: Path) -> Path | None:
    """Move a folder away, whatever it holds, so that a session can begin; nothing measured is deleted.

    Returns:
        Where it is now; None if nothing was there.
    """
    if not os.path.lexists(folder) or (folder.is_dir() and not any(folder.iterdir())):
        return None
    try:
        head = read_head(folder)
    except GateError:  # damaged, or of another version: it still has to make room
        head = None
    target = unused(folder.parent, f"{folder.name}.{head.run if head else 'unnamed'}")
    folder.rename(target)
    return target


def unused(folder: Path, stem: str, suffix: str = "") -> Path:
    """A path in the folder where nothing is yet: the name as it is, or with a number behind the stem."""
    names = (f"{stem}-{number}" if number else stem for number in count())
    return next(path for name in names if not os.path.lexists(path := folder / f"{name}{suffix}"))


def open_session(
    root: Path, head: SessionHead, ended: Ended, held: About, spoilt: About, *, resume: bool, fresh: bool
) -> Opened:
    """The session to run: the one that is there, a new one, or the one that confirms it.

    Args:
        root: folder of a session and of the one that confirms it.
        head: of the session that would begin now.
        ended: whether a session needs no further boot.
        held: whether a session that has ended awaits a fresh one to confirm it.
        spoilt: whether the boots of one must not be compared: it confirms nothing, and takes nothing back.
        resume: go on with what is there.
        fresh: put aside what is there.

    Raises:
        SessionOpenError: one has not ended, and neither `resume` nor `fresh` was given.
        SessionError: it cannot be gone on with.
    """
    first, second = root / "1", root / "2"
    aside = put_all_aside(first, second) if fresh else ()
    kept, confirming = read_head(first), read_head(second)
    if kept is None:
        if confirming is not None:
            raise SessionError(f"{first}: the session to confirm is gone", remedy="begin anew: --fresh")
        if resume:
            resumed(first, head)
        aside += put_all_aside(first)
        return Opened(first, begun(first, head, aside), None, aside)
    boots = tuple(finished_boots(first))
    current, now, earlier = first, kept, None
    if confirming is not None:
        if not boots:
            raise SessionError(
                f"{first / BOOTS}: the boots of the session to confirm are gone", remedy="begin anew: --fresh"
            )
        current, now, earlier = second, confirming, (kept, boots)
        boots = tuple(finished_boots(second))
    if resume:
        return Opened(current, resumed(current, head), earlier)
    if not ended(now, boots, earlier):
        resumed(current, head)  # under other conditions it cannot be told whether it has ended
        raise SessionOpenError(
            f"{current}: session {now.run} has not ended",
            remedy="--resume to go on with it, --fresh to put it aside",
        )
    accused = earlier or (kept, boots)
    if (earlier is None or spoilt(now, boots)) and held(*accused):
        resumed(first, head)  # under other conditions nothing could be confirmed
        aside = put_all_aside(second)
        return Opened(second, begun(second, head, aside), accused, aside)
    aside = put_all_aside(first, second)
    return Opened(first, begun(first, head, aside), None, aside)


def begun(folder: Path, head: SessionHead, aside: Sequence[Path]) -> SessionHead:
    """Begin a session; where it cannot be written down, say where that now lies which made room for it.

    Raises:
        SessionError: as said.
        FileUnreadableError: nothing was moved.
    """
    try:
        return begin(folder, head)
    except GateError as error:
        if not aside:
            raise
        where = ", ".join(map(str, aside))
        raise SessionError(
            error.what, cause=f"what was there now lies in {where}", remedy=error.remedy
        ) from error


def put_all_aside(*folders: Path) -> tuple[Path, ...]:
    """Move sessions away; returns where those that were there are now."""
    return tuple(target for folder in folders if (target := put_aside(folder)) is not None)


def finished_boots(folder: Path) -> list[BootMeasure]:
    """The boots of whole blocks, in order, up to the first file that is missing.

    A boot that cannot be compared stays, with its block as far as it came: it is not tried until it fits.

    Raises:
        SessionError: a boot's file is damaged, or not the boot that its name says, or of another session.
    """
    head = read_head(folder)
    boots: list[BootMeasure] = []
    while (path := folder / BOOTS / f"{place_name(len(boots))}.json").exists():
        boots.append(read_boot(path, len(boots), head.run if head else ""))
    if any(boot.problems for boot in boots):
        return boots
    return boots[: len(boots) // len(BLOCK) * len(BLOCK)]


def read_boot(path: Path, place: int, run: str) -> BootMeasure:
    """One boot from its file.

    Raises:
        SessionError: damaged, or of another place or session.
    """
    remedy = f"move {path} away: its block and those behind it run again"
    boot = decoded(path, BootMeasure, remedy)
    if (boot.place, boot.letter) != (place, letter_at(place)):
        raise SessionError(f"{path}: holds boot {boot.place} {boot.letter}", remedy=remedy)
    if boot.session not in ("", run):
        raise SessionError(f"{path}: is of session {boot.session}, not {run}", remedy=remedy)
    return boot


def put_others_aside(folder: Path, boots: Sequence[BootMeasure]) -> None:
    """Put all boots but these where nothing reads them: of a block that was interrupted, or behind a gap.

    The boots of a gap run later than those that were behind it, which then have no place in the order. Where
    no boot is left, the compile cache goes with those that wrote it: boots that only load cannot tell whether
    its code is slow. What a killed run was writing when it was killed is removed.
    """
    kept = {place_name(boot.place) for boot in boots}
    others = [path for path in sorted((folder / BOOTS).glob("*.json")) if path.stem not in kept]
    if not boots and os.path.lexists(folder / LINEAGE):
        others.append(folder / LINEAGE)
    for path in others:
        (folder / ASIDE).mkdir(exist_ok=True)
        path.rename(unused(folder / ASIDE, path.stem, path.suffix))
    for part in [*folder.glob(".*.tmp"), *(folder / BOOTS).glob(".*.tmp")]:
        part.unlink()


def end_of(boots: Sequence[BootMeasure], pairs: int, stop: Stop) -> str | None:
    """Why a session needs no further boot; None if boots are left to run."""
    bad = next((boot for boot in boots if boot.problems), None)
    if bad is not None:
        return f"boot {place_name(bad.place)} cannot be compared"
    why = stop(boots) if boots else None
    return why or (f"all {pairs} pairs were run" if len(boots) >= 2 * pairs else None)


def run_blocks(
    folder: Path, pairs: int, boot_one: BootOne, stop: Stop, blocks_now: int | None = None
) -> Progress:
    """Run what is left of a session, block by block, until it is complete or enough for now.

    Args:
        folder: the session's; whole blocks in it are not run again.
        pairs: the largest number of pairs.
        boot_one: boots once and measures.
        stop: asked after every whole block, the stored ones included.
        blocks_now: run at most so many blocks; None for no limit.
    """
    boots = finished_boots(folder)
    put_others_aside(folder, boots)
    ran = 0
    while True:
        why = end_of(boots, pairs, stop)
        if why is not None or (blocks_now is not None and ran >= blocks_now):
            return Progress(tuple(boots), why)
        block: list[BootMeasure] = []
        for place in range(len(boots), len(boots) + len(BLOCK)):
            boot = boot_one(place, letter_at(place))
            write_atomic(folder / BOOTS / f"{place_name(place)}.json", encoded(boot))
            block.append(boot)
            if boot.problems:  # nothing that follows could make the session comparable again
                break
        boots += block
        ran += 1


def encoded(value: msgspec.Struct) -> bytes:
    """Readable JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"
