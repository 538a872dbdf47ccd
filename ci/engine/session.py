"""The boots of one session, in order, each kept as soon as it is done: what is interrupted goes on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec

from ci.errors import GateError
from ci.results.boot import BootFacts
from ci.results.files import read_limited, write_atomic

LIMIT_BYTES = 1 << 20
MAX_AGE = timedelta(days=1)


class KeptBootError(GateError):
    """The file of a kept boot is damaged, or of another session."""


@dataclass(frozen=True)
class Boot:
    """One boot that a session needs."""

    arm: str
    max_num_seqs: int
    ordinal: int
    """From 1, among the boots of this arm at this number of sequences."""

    @property
    def name(self) -> str:
        """The folder of this boot."""
        return f"{self.arm}-{self.max_num_seqs}-{self.ordinal}"


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finished boot on disk."""

    key: str
    """Hash of everything that the boot depends on: profile, arms, machine."""
    made: Annotated[datetime, msgspec.Meta(tz=True)]
    """When it was kept, in UTC."""
    facts: BootFacts


def memory_boots(max_num_seqs: Sequence[int], reference: str, subject: str) -> list[Boot]:
    """For each number of sequences the reference, the subject and the reference again.

    The two reference boots are the A/A pair without which a difference says nothing; one on either
    side of the subject, so that a drift shows as a pair that does not repeat.
    """
    return [
        boot
        for seqs in max_num_seqs
        for boot in (Boot(reference, seqs, 1), Boot(subject, seqs, 1), Boot(reference, seqs, 2))
    ]


def session_key(*parts: str) -> str:
    """One hash over what the boots of a session have in common."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def run_session(
    folder: Path, boots: Sequence[Boot], key: str, run_one: Callable[[Boot, Path], BootFacts]
) -> list[BootFacts]:
    """Run the boots that are not on disk yet; returns the facts of all, in order.

    A boot with a problem is kept as well and not tried again by itself: delete its file to do so. One that is
    older than MAX_AGE is made again: a session is one sitting, and nobody wants last week's boots in it.
    """
    now = datetime.now(UTC)
    return [kept(folder, boot, key, now) or keep(folder, boot, key, run_one) for boot in boots]


def keep(folder: Path, boot: Boot, key: str, run_one: Callable[[Boot, Path], BootFacts]) -> BootFacts:
    """Run one boot and write down its facts, whole."""
    facts = run_one(boot, folder / boot.name)
    content = msgspec.json.format(msgspec.json.encode(Kept(key, datetime.now(UTC), facts)), indent=1)
    write_atomic(kept_file(folder, boot), content + b"\n")
    return facts


def kept_file(folder: Path, boot: Boot) -> Path:
    """Where the facts of a boot are kept."""
    return folder / f"{boot.name}.json"


def kept(folder: Path, boot: Boot, key: str, now: datetime) -> BootFacts | None:
    """The facts of a finished boot; None if it has not finished, or so long ago that it is made again.

    So is one of the days to come, which a clock that was wrong has dated.

    Raises:
        KeptBootError: the file is of another session, or damaged.
    """
    path = kept_file(folder, boot)
    if not path.exists():
        return None
    remedy = f"delete {path} to boot again, or {folder} to begin anew"
    try:
        found = msgspec.json.decode(read_limited(path, LIMIT_BYTES), type=Kept, strict=True)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise KeptBootError(f"{path}: {error}", remedy=remedy) from error
    if found.key != key:
        raise KeptBootError(f"{path}: is of a session with another profile, arm or machine", remedy=remedy)
    if (found.facts.arm, found.facts.max_num_seqs) != (boot.arm, boot.max_num_seqs):
        raise KeptBootError(f"{path}: holds {found.facts.arm} at {found.facts.max_num_seqs}", remedy=remedy)
    return found.facts if abs(now - found.made) < MAX_AGE else None
