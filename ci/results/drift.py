"""What became of the series on another vLLM release: typed, and stored as one JSON file per release."""

from __future__ import annotations

import enum

import msgspec

DRIFT_SCHEMA = 1
"""Raised when a stored answer would be wrong under the present rules; older ones are then made anew."""


class HunkState(enum.Enum):
    """What one hunk meets in a release."""

    EXACT = "exact"
    OFFSET = "offset"
    UPSTREAM = "upstream"
    """Its new side stands there already."""
    CONFLICT = "conflict"
    FOLLOWS = "follows"
    """It needs lines that an earlier hunk of the series could not bring."""
    GONE = "gone"
    """The file is not in the release."""


class PatchState(enum.Enum):
    """What one patch meets in a release, its earlier patches below it."""

    APPLIES = "applies"
    OFFSET = "applies at an offset"
    UPSTREAM = "already upstream"
    CONFLICTS = "conflicts"


PLACED = (HunkState.EXACT, HunkState.OFFSET)
OPEN = (HunkState.CONFLICT, HunkState.FOLLOWS, HunkState.GONE)
"""What somebody has to work on."""


class HunkFate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One hunk, or a whole file where ``hunk`` is 0."""

    file: str
    hunk: int
    state: HunkState
    stated: int = 0
    """Line in the file that the patch was cut against, from 1."""
    found: int | None = None
    """Line in the release, from 1; None if it stands nowhere."""
    why: str = ""
    diff: tuple[str, ...] = ()
    """From the lines that the hunk expects to those that the release has there."""


class PatchFate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One patch."""

    patch: str
    state: PatchState
    hunks: tuple[HunkFate, ...]

    def count(self, *states: HunkState) -> int:
        """Hunks in any of ``states``."""
        return sum(hunk.state in states for hunk in self.hunks)


class ReleaseFate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The whole series on one release."""

    schema: int
    version: str
    wheel: str = ""
    wheel_sha256: str | None = None
    record_sha256: str = ""
    """Hash of the wheel's own list of files, against which every file was checked."""
    patches: tuple[PatchFate, ...] = ()
    problem: str | None = None
    """Why the release could not be judged; it then has no patches."""

    @property
    def state(self) -> PatchState | None:
        """The worst of its patches; None if it could not be judged."""
        if self.problem is not None:
            return None
        states = [fate.state for fate in self.patches]
        for worst in (PatchState.CONFLICTS, PatchState.OFFSET, PatchState.APPLIES):
            if worst in states:
                return worst
        return PatchState.UPSTREAM


def patch_state(hunks: tuple[HunkFate, ...]) -> PatchState:
    """What the hunks amount to; a patch that is upstream in part has to be cut anew, which is a conflict."""
    states = {hunk.state for hunk in hunks}
    if states <= {HunkState.UPSTREAM}:
        return PatchState.UPSTREAM
    if not states <= set(PLACED):
        return PatchState.CONFLICTS
    return PatchState.OFFSET if HunkState.OFFSET in states else PatchState.APPLIES
