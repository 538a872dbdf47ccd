"""What can go wrong on the way from a wheel and a series to arms: one class per kind of failure."""

from __future__ import annotations

from ci.errors import GateError

REDIFF = "re-diff the patch against the pinned wheel"


class StackError(GateError):
    """Building or checking an arm failed."""


# --- the wheel ---------------------------------------------------------------------------------


class PipError(StackError):
    """pip is absent, or could not answer."""


class WheelNotFoundError(StackError):
    """pip does not find the pinned wheel in any place it is configured to look."""


class WheelMismatchError(StackError):
    """The wheel is there, but it is not the pinned one."""


class DownloadError(StackError):
    """The network or the server failed in the middle of a transfer."""


class RecordError(StackError):
    """A file of the wheel does not have the hash that RECORD lists, or RECORD is not the pinned one."""


class CacheError(StackError):
    """The cache folder cannot be used."""


# --- the series --------------------------------------------------------------------------------


class SeriesError(StackError):
    """The series folder is not usable."""


class SeriesSyntaxError(SeriesError):
    """A line of the series file does not follow the grammar."""


class MissingPatchError(SeriesError):
    """The series names a file that is not in the folder."""


class DoubledPatchError(SeriesError):
    """The series names a patch twice."""


class UnlistedPatchError(SeriesError):
    """The folder holds a patch that the series does not name."""


class EmptySeriesError(SeriesError):
    """There is no patch at all."""


class ArmsFileError(SeriesError):
    """arms.toml does not fit the series."""


class UnknownArmError(StackError):
    """No arm of this series has that name."""


class ArmNotBuiltError(StackError):
    """The arm is not in the cache."""


# --- one patch ---------------------------------------------------------------------------------


class PatchError(StackError):
    """A patch cannot be read or does not apply.

    Args:
        patch: file name of the patch.
        what: what is wrong, without the names that the other arguments give.
        file: the file of the tree that the patch names, where one is meant.
        hunk: its number within that file, from 1.
        line: line of the patch file, from 1.
    """

    def __init__(
        self,
        patch: str,
        what: str,
        *,
        file: str | None = None,
        hunk: int | None = None,
        line: int | None = None,
        cause: str | None = None,
        remedy: str | None = None,
    ) -> None:
        where = f"{patch}:{line}" if line is not None else patch
        parts = [where, *([file] if file else []), *([f"hunk {hunk}"] if hunk is not None else [])]
        super().__init__(f"{', '.join(parts)}: {what}", cause=cause, remedy=remedy or REDIFF)
        self.patch = patch
        self.file = file
        self.hunk = hunk
        self.line = line


class EmptyPatchError(PatchError):
    """The patch, or its part for one file, changes nothing."""


class CorruptPatchError(PatchError):
    """The text is no well-formed unified diff."""


class LostSpaceError(CorruptPatchError):
    """An empty context line lost the space that marks it as context."""


class EncodingError(PatchError):
    """The patch is in an encoding in which no diff can be read, or a path is no UTF-8."""


class LineEndingsError(PatchError):
    """The patch and the file end their lines differently."""


class PathOutsideError(PatchError):
    """A path is absolute, leaves the tree, or is unusable in another way."""


class SymlinkError(PatchError):
    """The patch makes, changes or removes a symbolic link (or a submodule)."""


class ModeChangeError(PatchError):
    """The patch sets a file mode; an arm carries contents only."""


class BinaryPatchError(PatchError):
    """The patch changes a binary file."""


class MixedBaseError(PatchError):
    """Some paths are cut against the package folder, others against the tree around it."""


class UnplacedPatchError(PatchError):
    """The patch only creates files, and nothing shows against which folder it is cut."""


class NoSuchFileError(PatchError):
    """The file to change is not in this vLLM version."""


class NotInFlavourError(NoSuchFileError):
    """The wheel has the file, but the lean flavour leaves it out."""


class NewFileExistsError(PatchError):
    """The file to create is there already."""


class AlreadyAppliedError(PatchError):
    """The tree already has what the patch brings."""


class NoNewlineError(PatchError):
    """Patch and file disagree about the newline at the end of the file."""


class NoContextError(PatchError):
    """The hunk has no old line, so nothing shows where it belongs."""


class ContextMismatchError(PatchError):
    """The old side of a hunk is nowhere in the file."""


class AmbiguousHunkError(PatchError):
    """The old side of a hunk fits in more than one place, equally well."""


class UnchangedFileError(PatchError):
    """The patch names a file, and after it the file is what it was before."""
