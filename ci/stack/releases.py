"""Other vLLM releases: which there are since the pin, and a tree of each that reads only what it must."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from packaging.version import Version

from ci.errors import UsageError
from ci.results.files import write_atomic
from ci.stack.errors import DownloadError, RecordError, WheelMismatchError
from ci.stack.locate import WheelSource, find_wheel, locate_wheel, target_tags, wheel_name
from ci.stack.pin import Pin
from ci.stack.pipcall import list_versions
from ci.stack.progress import Silent
from ci.stack.ranges import Counted, RangesRefusedError, RemoteFile, SparseFile
from ci.stack.record import Record, parse_record
from ci.stack.wheel import inflate, member_spans, open_wheel, read_member

OTHER_PLATFORMS = (
    "manylinux_2_31_x86_64",
    "manylinux_2_34_x86_64",
    "manylinux_2_35_x86_64",
    "manylinux1_x86_64",
)
"""Tags that a release may carry besides the pinned wheel's own: its builders move to newer systems."""


def releases_since(pin: Pin, cache: Path) -> tuple[str, ...]:
    """The pinned release and every later one, oldest first.

    Raises:
        PipError: pip cannot say.
    """
    tags = target_tags([pin.platform, *OTHER_PLATFORMS])
    return since(pin.vllm, list_versions("vllm", tags, cache))


def since(first: str, versions: Sequence[str]) -> tuple[str, ...]:
    """``versions`` from ``first`` on, oldest first, ``first`` itself always among them."""
    later = {version for version in versions if Version(version) >= Version(first)}
    return tuple(sorted(later | {first}, key=Version))


def locate_release(version: str, pin: Pin, cache: Path) -> tuple[Pin, WheelSource]:
    """Where a release's wheel is; its RECORD is not known yet unless it is the pinned one.

    Raises:
        WheelNotFoundError, WheelMismatchError: as for the pinned wheel.
    """
    if version == pin.vllm:
        return pin, locate_wheel(pin, cache)
    found = find_wheel(version, [pin.platform, *OTHER_PLATFORMS], cache)
    release = Pin(version, wheel_name(found), found.sha256 or "", "", pin.torch, pin.triton)
    return release, WheelSource(found.url)


class ReleaseTree:
    """The Python files of one release, each fetched when it is first read and checked against RECORD.

    What was read stays in ``folder``, so that the next look at the release costs nothing.
    """

    def __init__(
        self, archive: zipfile.ZipFile, stream: IO[bytes] | SparseFile, release: Pin, folder: Path
    ) -> None:
        self.archive, self.stream, self.folder = archive, stream, folder
        name = f"{release.dist_info}/RECORD"
        if name not in archive.namelist():
            raise WheelMismatchError(f"{release.wheel}: no {name}", remedy="pip config list")
        data = inflate(archive, archive.getinfo(name))
        self.record_sha256 = hashlib.sha256(data).hexdigest()
        known = release.record_sha256 or self.record_sha256
        self.record: Record = parse_record(data, _with_record(release, known))
        self.infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}

    def read(self, path: str) -> bytes | None:
        """The content of one file, or None if the release has no such file."""
        if path not in self.infos or path not in self.record.files:
            return None
        kept = self.folder / path
        if kept.is_file():
            data = kept.read_bytes()
            try:
                self.record.check(path, data)
            except RecordError:
                kept.unlink()
            else:
                return data
        self.fetch(lambda name: name == path)
        data = read_member(self.archive, self.infos[path], self.record)
        write_atomic(kept, data)
        return data

    def paths(self) -> Iterator[str]:
        """Every Python file; all of them are fetched at once, since a search is about to read them."""
        self.fetch(lambda name: name.endswith(".py"))
        return iter(sorted(path for path in self.infos if path.endswith(".py")))

    def left_out(self, path: str) -> bool:
        """Nothing is left out: whatever the wheel has can be read."""
        return False

    def fetch(self, wanted: Callable[[str], bool]) -> None:
        """Transfer the wanted files that are not in the folder yet, neighbours in one request."""
        if isinstance(self.stream, SparseFile):
            missing = {path for path in self.infos if wanted(path) and not (self.folder / path).is_file()}
            spans = member_spans(self.archive.infolist(), self.archive.start_dir, missing.__contains__)
            self.stream.prefetch(spans, Silent())


@contextmanager
def open_release(release: Pin, source: WheelSource, cache: Path) -> Iterator[tuple[ReleaseTree, Counted]]:
    """The tree of a release, read by ranges, or from a file where pip found one.

    Raises:
        StackError: it cannot be fetched or trusted.
    """
    folder = cache / "releases" / _folder_name(release)
    if source.local is not None:
        with source.local.open("rb") as file, open_wheel(file, release.wheel) as archive:
            yield ReleaseTree(archive, file, release, folder), Counted()
        return
    try:
        remote = RemoteFile(source.url)
    except RangesRefusedError as error:
        raise DownloadError(
            f"{release.wheel}: the server answers no range requests",
            cause="a whole wheel of some 500 MB is not fetched for this",
            remedy="point pip at an index that does, or put the wheel in a folder and set PIP_FIND_LINKS",
        ) from error
    sparse = SparseFile(remote)
    with open_wheel(sparse, release.wheel) as archive:
        yield ReleaseTree(archive, sparse, release, folder), remote.counted


def check_version(text: str) -> str:
    """``text``, if it can be a version and part of a file name.

    Raises:
        UsageError: it cannot.
    """
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)*((a|b|rc|\.post|\.dev)[0-9]+)?", text):
        raise UsageError(f"{text!r} is no vLLM release", remedy="name one as pip does, such as 0.28.0")
    return text


def _with_record(release: Pin, record_sha256: str) -> Pin:
    return Pin(
        release.vllm, release.wheel, release.wheel_sha256, record_sha256, release.torch, release.triton
    )


def _folder_name(release: Pin) -> str:
    return f"{check_version(release.vllm)}-{release.wheel_sha256[:12] or 'unhashed'}"
