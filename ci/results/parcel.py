"""Unpack what another job uploaded: an archive from a stranger, of which every name and size is checked.

An archive holds ``LANE/SUITE/FILE``.  Only the three files that a verdict is made
of are written; logs and what the verdict replaces are left aside; anything else
is refused, so that nothing in an artifact (a ready comment, the number of a pull
request) can be mistaken for something that was asked for.
"""

from __future__ import annotations

import re
import stat
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ci.errors import GateError
from ci.results.files import write_atomic
from ci.results.folder import JUNIT_FILE, RECORDS_FILE, RUN_FILE
from ci.results.jsonl import is_slug, open_results
from ci.results.junit import read_junit

MIB = 1 << 20
TAKEN = {RUN_FILE: MIB, RECORDS_FILE: 64 * MIB, JUNIT_FILE: 32 * MIB}
"""The files that are written, and how large each may be unpacked: many times the largest suite's."""
LEFT_ASIDE = {"head.json", "verdict.json"}
MAX_ARCHIVE_BYTES = 128 * MIB
MAX_UNPACKED_BYTES = 512 * MIB
"""Of all files that are written."""
MAX_MEMBERS = 2000
_BLOCK = MIB
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.,:+=/()\[\]-]{0,199}")
"""Names of cases and metrics that a stranger may bring: nothing that Markdown, HTML or a log could read."""


class ParcelError(GateError):
    """An artifact that is not what one of our jobs uploads."""

    def __init__(self, archive: Path, what: str) -> None:
        super().__init__(
            f"{archive.name}: refused: {what}",
            cause="damaged, made by other code than ours, or hostile",
            remedy="read the job that uploaded it; none of its files was used",
        )


@dataclass(frozen=True)
class Member:
    """One file of the archive that will be written."""

    info: zipfile.ZipInfo
    lane: str
    suite: str
    file: str


def unpack(archive: Path, into: Path, lanes: Iterable[str] | None = None) -> list[tuple[str, str]]:
    """Unpack the runs of one artifact, all of them or none.

    Args:
        archive: the zip file.
        into: folder of the runs; the folder of a run that comes anew must not be there.
        lanes: lanes that the artifact may be about; None for any.

    Returns:
        Lane and suite of each run.

    Raises:
        ParcelError: with what is wrong; nothing was written.
        GateError: one of its files is not what its name says.
    """
    if archive.stat().st_size > MAX_ARCHIVE_BYTES:
        raise ParcelError(
            archive, f"{archive.stat().st_size / MIB:.0f} MiB, at most {MAX_ARCHIVE_BYTES // MIB}"
        )
    try:
        with zipfile.ZipFile(archive) as opened:
            members = _check_members(archive, opened.infolist(), None if lanes is None else set(lanes))
            contents = {member: _read(archive, opened, member) for member in members}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise ParcelError(archive, f"no readable archive: {error}") from error
    runs = sorted({(member.lane, member.suite) for member in members})
    for lane, suite in runs:
        if (into / lane / suite).exists():
            raise ParcelError(archive, f"{lane}/{suite} has come already, in another artifact")
    written = [_write(into, member, data) for member, data in contents.items()]
    try:
        for path in written:
            _check_content(archive, path)
    except GateError:
        for path in written:
            path.unlink()
        raise
    return runs


def _check_members(archive: Path, infos: list[zipfile.ZipInfo], lanes: set[str] | None) -> list[Member]:
    if len(infos) > MAX_MEMBERS:
        raise ParcelError(archive, f"{len(infos)} files, at most {MAX_MEMBERS}")
    seen: set[str] = set()
    members = []
    for info in infos:
        name = info.filename
        if name.casefold() in seen:
            raise ParcelError(archive, f"{_shown(name)} stands in it twice")
        seen.add(name.casefold())
        member = _check_name(archive, info, lanes)
        if member is not None:
            members.append(member)
    if not members:
        raise ParcelError(archive, "no run in it")
    if sum(member.info.file_size for member in members) > MAX_UNPACKED_BYTES:
        raise ParcelError(archive, f"more than {MAX_UNPACKED_BYTES // MIB} MiB unpacked")
    return members


def _check_name(archive: Path, info: zipfile.ZipInfo, lanes: set[str] | None) -> Member | None:
    """The member to write; None for one that is left aside."""
    name, mode = info.filename, info.external_attr >> 16
    parts = name.rstrip("/").split("/")
    if "\\" in name or "\0" in name or name.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise ParcelError(archive, f"{_shown(name)} leads out of its folder")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ParcelError(archive, f"{_shown(name)} is a link or a device")
    if info.flag_bits & 0x1:
        raise ParcelError(archive, f"{_shown(name)} is encrypted")
    if not all(is_slug(part) for part in parts[:2]) or (lanes is not None and parts[0] not in lanes):
        raise ParcelError(archive, f"{_shown(name)}: no lane and suite that was asked for")
    if name.endswith(("/", ".log")):
        return None
    if len(parts) != 3 or parts[2] not in {*TAKEN, *LEFT_ASIDE}:
        raise ParcelError(archive, f"{_shown(name)}: no file of a run")
    return Member(info, *parts) if parts[2] in TAKEN else None


def _read(archive: Path, opened: zipfile.ZipFile, member: Member) -> bytes:
    """The content, never more than its kind may have, whatever size the archive states."""
    limit = TAKEN[member.file]
    blocks, size = [], 0
    if member.info.file_size <= limit:
        with opened.open(member.info) as stream:
            while block := stream.read(_BLOCK):
                blocks.append(block)
                size += len(block)
                if size > limit:
                    break
    if size > limit or member.info.file_size > limit:
        stated = max(size, member.info.file_size) / MIB
        raise ParcelError(
            archive, f"{_shown(member.info.filename)}: {stated:.0f} MiB, at most {limit // MIB}"
        )
    return b"".join(blocks)


def _write(into: Path, member: Member, data: bytes) -> Path:
    path = into / member.lane / member.suite / member.file
    write_atomic(path, data)
    return path


def _check_content(archive: Path, path: Path) -> None:
    """Read each file with the reader that the verdict uses, and names with stricter eyes than at home."""
    if path.name == JUNIT_FILE:
        read_junit(path)
    if path.name == RECORDS_FILE:
        with open_results(path) as (head, records):
            if (head.lane, head.suite) != (path.parent.parent.name, path.parent.name):
                raise ParcelError(
                    archive, f"records of {_shown(head.lane)}/{_shown(head.suite)} in another folder"
                )
            for record in records:
                for name in (record.case, record.metric):
                    if not _PLAIN_NAME.fullmatch(name):
                        raise ParcelError(archive, f"{_shown(name)}: no name of a case or metric")


def _shown(name: str) -> str:
    """A foreign name for a message: one line, short, and no workflow command."""
    return ascii(name[:80])
