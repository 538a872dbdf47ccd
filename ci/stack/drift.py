"""What a patch series meets in another release, hunk by hunk.  Pure: trees come in, fates come out.

The strict applier decides whether a patch applies.  Only what it refuses is
looked at again, more patiently: every hunk for itself, so that one report
names all that has to be redone, and the next patch is judged on top of what
could be applied.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ci.results.drift import PLACED, HunkFate, HunkState, PatchFate, PatchState, patch_state
from ci.stack.apply import Applied, apply_patch, path_base
from ci.stack.errors import AlreadyAppliedError, MixedBaseError, NoSuchFileError, PatchError
from ci.stack.explain import best_place
from ci.stack.patchmodel import ChangeKind, FileChange, Hunk, Patch
from ci.stack.place import Tie, anchored, choose, matches, split_lines
from ci.stack.tree import Overlay, Tree

MAX_DIFF_LINES = 24
"""As much of a change as one report shows per hunk; the file itself has the rest."""
REACH_LINES = 24
"""How far around the best place the expected lines are looked for."""
MIN_ALIKE = 2
"""Fewer lines in common than this, and there is no place to show a difference at."""


@dataclass
class _Pending:
    """Lines that hunks of the series would have added, had they applied."""

    added: dict[str, dict[bytes, str]] = field(default_factory=dict)
    """By file: the line, and the hunk that brings it."""

    def add(self, path: str, patch: str, hunk: Hunk) -> None:
        known = self.added.setdefault(path, {})
        for line in hunk.added:
            if line.strip():
                known.setdefault(line, f"{patch}, hunk {hunk.number}")

    def source(self, path: str, hunk: Hunk, lines: Sequence[bytes]) -> str | None:
        """The earlier hunk that ``hunk`` waits for, if it does."""
        known, there = self.added.get(path, {}), set(lines)
        return next((known[line] for line in hunk.old if line in known and line not in there), None)


def judge_series(patches: Iterable[Patch], tree: Tree) -> tuple[PatchFate, ...]:
    """The fate of each patch on ``tree``, those before it applied as far as they go."""
    below, pending = Overlay(tree), _Pending()
    return tuple(_judge(patch, below, pending) for patch in patches)


def _judge(patch: Patch, below: Overlay, pending: _Pending) -> PatchFate:
    try:
        applied = apply_patch(patch, below)
    except PatchError as error:
        return _examine(patch, below, pending, error)
    hunks = _take_over(applied, below, patch.changes)
    return PatchFate(patch.name, patch_state(hunks), hunks)


def _take_over(applied: Applied, below: Overlay, changes: Sequence[FileChange]) -> tuple[HunkFate, ...]:
    """Write what was applied, and say where each hunk went."""
    for path, data in applied.files.items():
        below.write(path, data)
    fates = [
        HunkFate(p.file, p.hunk, HunkState.OFFSET if p.offset else HunkState.EXACT, p.stated, p.found)
        for p in applied.placements
    ]
    placed = {fate.file for fate in fates}
    paths = [applied.base + change.path for change in changes]
    return (*fates, *(HunkFate(path, 0, HunkState.EXACT) for path in paths if path not in placed))


def _examine(patch: Patch, below: Overlay, pending: _Pending, error: PatchError) -> PatchFate:
    """A refused patch, one file after the other."""
    try:
        base = path_base(patch)
    except MixedBaseError:
        return PatchFate(patch.name, PatchState.CONFLICTS, (_whole(error.file or "", error),))
    hunks: list[HunkFate] = []
    for change in patch.changes:
        hunks += _examine_change(patch, change, base, below, pending)
    if patch_state(tuple(hunks)) in (PatchState.APPLIES, PatchState.OFFSET):
        # Every part fits for itself, and yet the patch was refused as a whole.
        hunks.append(_whole(error.file or "", error))
    return PatchFate(patch.name, patch_state(tuple(hunks)), tuple(hunks))


def _examine_change(
    patch: Patch, change: FileChange, base: str, below: Overlay, pending: _Pending
) -> Sequence[HunkFate]:
    path = base + (change.old_path or change.path)
    alone = dataclasses.replace(patch, changes=(change,))
    try:
        return _take_over(apply_patch(alone, below), below, (change,))
    except AlreadyAppliedError:
        return [HunkFate(path, hunk.number, HunkState.UPSTREAM, hunk.stated + 1) for hunk in change.hunks]
    except NoSuchFileError as error:
        for hunk in change.hunks:
            pending.add(path, patch.name, hunk)
        why = ", ".join(filter(None, ("no such file in this release", error.cause)))
        return [
            HunkFate(path, hunk.number, HunkState.GONE, hunk.stated + 1, why=why) for hunk in change.hunks
        ]
    except PatchError as error:
        if change.kind is ChangeKind.MODIFY and any(hunk.old for hunk in change.hunks):
            return _examine_hunks(patch, change, path, below, pending, error)
        return [_created(change, path, below) or _whole(path, error)]


def _created(change: FileChange, path: str, below: Overlay) -> HunkFate | None:
    """Upstream, if the release has the file that the patch creates, byte for byte."""
    content = b"".join(line for hunk in change.hunks for line in hunk.new)
    if change.kind is ChangeKind.CREATE and below.read(path) == content:
        return HunkFate(path, 0, HunkState.UPSTREAM)
    return None


def _examine_hunks(
    patch: Patch, change: FileChange, path: str, below: Overlay, pending: _Pending, error: PatchError
) -> list[HunkFate]:
    """Each hunk of one file; those that fit are applied."""
    lines = split_lines(below.read(path) or b"")
    out: list[bytes] = []
    fates = []
    end = carried = 0
    for hunk in change.hunks:
        fate = _fate(path, lines, hunk, end, carried)
        if fate.found is None:
            fate = _waiting(fate, pending.source(path, hunk, lines))
            pending.add(path, patch.name, hunk)
        else:
            at = fate.found - 1
            out += [*lines[end:at], *hunk.new]
            end = at + len(hunk.new if fate.state is HunkState.UPSTREAM else hunk.old)
            carried = at - hunk.stated
        fates.append(fate)
    if all(fate.state in PLACED for fate in fates):
        return [*fates, _whole(path, error)]
    below.write(path, b"".join([*out, *lines[end:]]))
    return fates


def _waiting(fate: HunkFate, source: str | None) -> HunkFate:
    """The conflict as it is, or as the consequence of an earlier one."""
    if source is None:
        return fate
    why = f"needs the lines of {source}"
    return HunkFate(fate.file, fate.hunk, HunkState.FOLLOWS, fate.stated, why=why)


def _fate(path: str, lines: Sequence[bytes], hunk: Hunk, floor: int, carried: int) -> HunkFate:
    """One hunk by itself: where it stands, or why it does not."""
    stated = hunk.stated + 1
    if not hunk.old:
        why = "no old line, so nothing shows where it belongs"
        return HunkFate(path, hunk.number, HunkState.CONFLICT, stated, why=why)
    places = [at for at in matches(lines, hunk.old, floor) if anchored(hunk, at, len(lines))]
    if places:
        chosen = choose(places, hunk.stated, carried)
        if isinstance(chosen, Tie):
            why = f"fits at line {chosen.first + 1} and at line {chosen.second + 1} equally well"
            return HunkFate(path, hunk.number, HunkState.CONFLICT, stated, why=why)
        state = HunkState.EXACT if chosen == hunk.stated else HunkState.OFFSET
        return HunkFate(path, hunk.number, state, stated, chosen + 1)
    there = matches(lines, hunk.new, floor) if hunk.new else []
    if there:
        return HunkFate(path, hunk.number, HunkState.UPSTREAM, stated, there[0] + 1)
    return _conflict(path, lines, hunk)


def _conflict(path: str, lines: Sequence[bytes], hunk: Hunk) -> HunkFate:
    """What the release has where the hunk was meant."""
    stated = hunk.stated + 1
    at = best_place(lines, hunk)
    first = max(at - REACH_LINES, 0)
    window = lines[first : at + len(hunk.old) + REACH_LINES]
    alike = difflib.SequenceMatcher(None, hunk.old, window, autojunk=False)
    blocks = [
        block
        for block in alike.get_matching_blocks()
        if any(line.strip() for line in hunk.old[block.a : block.a + block.size])
    ]
    same = sum(block.size for block in blocks)
    if same < MIN_ALIKE:
        why = f"none of its {len(hunk.old)} expected lines stand together anywhere in the file"
        return HunkFate(path, hunk.number, HunkState.CONFLICT, stated, why=why)
    start = max(blocks[0].b - blocks[0].a, 0)
    stop = blocks[-1].b + len(hunk.old) - blocks[-1].a
    why = f"{same} of its {len(hunk.old)} expected lines stand around line {first + start + 1}"
    if same == len(hunk.old):
        why = f"other lines stand between its {same} expected ones around line {first + start + 1}"
    diff = show_diff(hunk.old, window[start:stop])
    return HunkFate(path, hunk.number, HunkState.CONFLICT, stated, None, why, diff)


def show_diff(expected: Sequence[bytes], found: Sequence[bytes]) -> tuple[str, ...]:
    """The change from ``expected`` to ``found``, one line of context, at most MAX_DIFF_LINES lines."""
    old, new = ([_text(line) for line in side] for side in (expected, found))
    lines = list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:]  # without the two file names
    lines = ["@@" if line.startswith("@@ ") else line for line in lines]
    if len(lines) > MAX_DIFF_LINES:
        lines = [*lines[:MAX_DIFF_LINES], f"... {len(lines) - MAX_DIFF_LINES} more lines"]
    return tuple(lines)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _whole(path: str, error: PatchError) -> HunkFate:
    """A refusal that no single hunk explains."""
    return HunkFate(path, error.hunk or 0, HunkState.CONFLICT, why=error.what.partition("\n")[0])
