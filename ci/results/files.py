"""Files that another process reads: written whole, read with a limit."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

from ci.errors import GateError

MIB = 1024 * 1024


class FileMissingError(GateError):
    """The file is not there."""


class FileUnreadableError(GateError):
    """The file is there, but is no plain file or cannot be read."""


class FileTooLargeError(GateError):
    """The file is larger than its kind may be."""


def write_atomic(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that a reader sees the old file or the new one, never a part.

    The data goes to a temporary file of the same folder (made if absent) and is
    renamed over ``path``.  A symlink at ``path`` is replaced, not followed.

    Raises:
        FileUnreadableError: the folder or file cannot be written.
    """
    with _beside(path, data) as temporary, _writable(path):
        os.replace(temporary, path)


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write files, new ones or over those that are there, in the order given: all of them, or none.

    Each lies whole beside its place before the first takes it, and what stood there keeps a second
    name until all are written: a full disk changes nothing, and putting back needs no space.

    Raises:
        FileUnreadableError: a file cannot be read or written; all others but those named are as they were.
    """
    with ExitStack() as stack:
        beside = {path: stack.enter_context(_beside(path, data)) for path, data in files.items()}
        before = [stack.enter_context(_Old(path)) for path in files]
        try:
            for path, temporary in beside.items():
                with _writable(path):
                    os.replace(temporary, path)
        except BaseException as error:  # an interrupt, too, must not leave half of them
            written = [old for old in before if not os.path.lexists(beside[old.path])]
            if lost := [old for old in written if not old.put_back()]:
                raise _not_put_back(lost, error) from error
            raise


class _Old:
    """What stands at a path, a link as such: kept under another name for the block, if lost for longer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept: Path | None = None
        self.lost = False

    def __enter__(self) -> Self:
        if self.path.exists() and not self.path.is_file():
            raise _not_plain(self.path)
        if os.path.lexists(self.path):
            self.kept = self.path.with_name(f".{self.path.name[:80]}.{secrets.token_hex(8)}.old")
            with _writable(self.path):
                self.keep(self.kept)
        return self

    def keep(self, kept: Path) -> None:
        try:
            os.link(self.path, kept, follow_symlinks=False)
        except OSError:  # a file system without them
            shutil.copy2(self.path, kept, follow_symlinks=False)

    def put_back(self) -> bool:
        try:
            if self.kept is None:
                self.path.unlink(missing_ok=True)
            else:
                os.replace(self.kept, self.path)
        except OSError:
            self.lost = True
        return not self.lost

    def __exit__(self, *_: object) -> None:
        if self.kept is not None and not self.lost:
            with suppress(OSError):
                self.kept.unlink()

    def __str__(self) -> str:
        return (
            f"{self.path} ({f'what it held is in {self.kept}' if self.kept else 'it was not there before'})"
        )


def write_report(path: Path, data: bytes) -> None:
    """Write a file that the user names: whole; through a link, and into a device or a pipe, as it comes.

    Such a path stays what it is, as /dev/stdout has to, which is a link whatever the output goes to.

    Raises:
        FileUnreadableError: it cannot be written.
    """
    if _stays(path):
        _write_into(path, data, "wb")
    else:
        write_atomic(path, data)


def append(path: Path, data: bytes) -> None:
    """Add to a file that others write to as well, such as a job's summary.

    Raises:
        FileUnreadableError: it cannot be written.
    """
    _write_into(path, data, "ab")


def _stays(path: Path) -> bool:
    """Whether what is at a path is written into and never replaced."""
    if path.is_symlink():
        return True
    if not path.exists() or path.is_dir():
        return False
    return not path.is_file() or path.absolute().parts[1] in ("dev", "proc")


def _write_into(path: Path, data: bytes, mode: str) -> None:
    with _writable(path):
        own = _own_output(path)
        target = path if own is None else own
        with open(target, mode, closefd=own is None) as stream:
            stream.write(data)


def _own_output(path: Path) -> int | None:
    """Return the descriptor of our own output that ``path`` leads to; a second one would write over it."""
    for descriptor in (1, 2):
        with suppress(OSError):  # closed, or there is no such path yet
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                sys.stdout.flush()
                return descriptor
    return None


@contextmanager
def _beside(path: Path, data: bytes) -> Iterator[str]:
    """A temporary file in the folder of ``path`` that holds ``data``; unless it was moved it is removed."""
    temporary = ""
    try:
        with _writable(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(".tmp", f".{path.name[:80]}.", path.parent)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
        yield temporary
    finally:
        if temporary:
            with suppress(OSError):
                os.unlink(temporary)


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    """Say of ``path`` what the operating system says about writing it."""
    try:
        yield
    except OSError as error:
        raise FileUnreadableError(
            f"{path}: cannot be written: {error.strerror or error}",
            remedy="check the free space and the permissions of the folder",
        ) from error


def _not_put_back(lost: Sequence[_Old], error: BaseException) -> FileUnreadableError:
    return FileUnreadableError(
        f"cannot be put back: {', '.join(map(str, lost))}",
        cause=error.what
        if isinstance(error, GateError)
        else f"{type(error).__name__} while files were written",
        remedy="move back what they held, and remove what was not there, as soon as the disk can be written",
    )


def _not_plain(path: Path) -> FileUnreadableError:
    return FileUnreadableError(
        f"{path}: not a plain file", remedy="name a plain file, or put one in its place"
    )


@contextmanager
def open_plain(path: Path, max_bytes: int) -> Iterator[BinaryIO]:
    """Open the plain file ``path``, which may have at most ``max_bytes`` bytes, for reading bytes.

    Raises:
        FileMissingError: there is no such file.
        FileUnreadableError: it is a folder, a pipe, a device, or not readable.
        FileTooLargeError: it is larger than ``max_bytes``.
    """
    try:
        # Non-blocking, so that a named pipe in place of a file cannot hang the gate.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            info = os.fstat(stream.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise _not_plain(path)
            if info.st_size > max_bytes:
                raise _too_large(path, info.st_size, max_bytes)
            yield stream
    except FileNotFoundError as error:
        raise FileMissingError(f"{path}: no such file") from error
    except OSError as error:
        raise FileUnreadableError(f"{path}: cannot be read: {error.strerror or error}") from error


def read_limited(path: Path, max_bytes: int) -> bytes:
    """Return the content of the plain file ``path``; errors as for `open_plain`."""
    with open_plain(path, max_bytes) as stream:
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:  # it grew while it was read
        raise _too_large(path, len(data), max_bytes)
    return data


def _too_large(path: Path, size: int, limit: int) -> FileTooLargeError:
    return FileTooLargeError(
        f"{path}: {size / MIB:.1f} MiB, the limit is {limit / MIB:.1f} MiB",
        remedy="look at what filled the file; a run of the suite writes a new one",
    )


def _umask() -> int:
    """Return the umask; reading it means setting it, so it is put back at once."""
    current = os.umask(0o022)
    os.umask(current)
    return current
