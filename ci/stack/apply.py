"""Apply a parsed patch to a tree with exact context.  Pure: what changes comes back, nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ci.stack import explain
from ci.stack.errors import (
    AmbiguousHunkError,
    CorruptPatchError,
    MixedBaseError,
    NewFileExistsError,
    NoContextError,
    PatchError,
    UnchangedFileError,
    UnplacedPatchError,
)
from ci.stack.patchmodel import ChangeKind, FileChange, Hunk, Patch
from ci.stack.place import Placement, Tie, anchored, choose, matches, split_lines
from ci.stack.tree import Overlay, Tree

PACKAGE = "vllm"


@dataclass(frozen=True)
class Applied:
    """What one patch does to a tree."""

    patch: Patch
    base: str
    """What stands before the patch's paths to get those of the tree: ``vllm/`` or nothing."""
    files: dict[str, bytes | None]
    """New content by path in the tree; None for a removed file."""
    placements: tuple[Placement, ...]
    """Every hunk that had to be found, in order."""


def apply_series(patches: Iterable[Patch], tree: Tree, package: str = PACKAGE) -> list[Applied]:
    """Apply ``patches`` one on top of the other; all of them, or an error and nothing.

    Raises:
        PatchError: the first defect, with patch, file and hunk.
    """
    below = Overlay(tree)
    done = []
    series = list(patches)
    for place, patch in enumerate(series, start=1):
        try:
            applied = apply_patch(patch, below, package)
        except PatchError as error:
            if before := _missing_before(patch, series[place:], below, package):
                names = ", ".join(before)
                error.cause = f"it applies once {names} is there, and the series has that after it"
                error.remedy = f"list {names} before {patch.name} in the file series"
            raise
        for path, data in applied.files.items():
            below.write(path, data)
        done.append(applied)
    return done


def _missing_before(patch: Patch, later: Sequence[Patch], tree: Tree, package: str) -> list[str]:
    """Which later patches a patch needs, as far as trying tells: with them, in this order, it applies."""
    over, waiting, before = Overlay(tree), list(later), []
    while waiting:
        for other in waiting:
            with suppress(PatchError):
                for path, data in apply_patch(other, over, package).files.items():
                    over.write(path, data)
                waiting.remove(other)
                before.append(other.name)
                break
        else:
            return []
        with suppress(PatchError):
            apply_patch(patch, over, package)
            return before
    return []


def apply_patch(patch: Patch, tree: Tree, package: str = PACKAGE) -> Applied:
    """Apply one patch.

    Raises:
        PatchError: one class per kind of defect; ``tree`` is left as it is in any case.
    """
    base = path_base(patch, package)
    over = Overlay(tree)
    if base and all(_creates(change, base, over) for change in patch.changes):
        _refuse_unplaced(patch, base, tree)
    placements: list[Placement] = []
    for change in patch.changes:
        placements += _apply_change(patch, change, base, over)
    for path, data in over.changed.items():
        if data == tree.read(path):
            raise UnchangedFileError(
                patch.name, "the same as before the patch", file=path,
                cause="its parts undo each other", remedy="take the file out of the patch",
            )  # fmt: skip
    return Applied(patch, base, dict(over.changed), tuple(placements))


def path_base(patch: Patch, package: str = PACKAGE) -> str:
    """Decide once per patch what its paths are relative to.

    Returns:
        ``""`` if they name the package folder themselves (``vllm/v1/...``), else ``vllm/``.

    Raises:
        MixedBaseError: some do and some do not.
    """
    paths = list(dict.fromkeys(path for change in patch.changes for path in change.paths))
    around = [path for path in paths if path.startswith(f"{package}/")]
    inside = [path for path in paths if not path.startswith(f"{package}/")]
    if around and inside:
        raise MixedBaseError(
            patch.name,
            f"mixed paths: {around[0]} names the {package} folder, {inside[0]} does not",
            cause=f"a patch is cut either against {package}/ or against the tree around it; of that tree the "
            f"wheel has {package}/ alone (no tests/, csrc/, docs/)",
            remedy=f"take out what is not in {package}/, or cut all paths against the same folder",
        )
    return "" if around else f"{package}/"


def _refuse_unplaced(patch: Patch, base: str, tree: Tree) -> None:
    """Refuse new files in a folder that the package lacks, where no other file shows what they belong to."""
    folders = {path[len(base) :].partition("/")[0] for path in tree.paths() if path.count("/") > 1}
    for change in patch.changes:
        top, slash, _ = change.path.partition("/")
        if not slash or top not in folders:
            raise UnplacedPatchError(
                patch.name,
                "nothing shows whether this new file belongs into the package or around it",
                file=change.path,
                line=change.line,
                cause=f"the patch only creates files, and {base} has no folder of that name; of the tree "
                f"around it the wheel has {base} alone (no tests/, csrc/, docs/)",
                remedy=f"name it {base}{change.path} if it belongs there, else take it out of the patch",
            )


def _apply_change(patch: Patch, change: FileChange, base: str, over: Overlay) -> list[Placement]:
    if _creates(change, base, over):
        return _create(patch, change, base, over)
    old_path = base + (change.old_path or "")
    data = over.read(old_path)
    if data is None:
        raise explain.no_such_file(patch, change, old_path, over)
    lines, placements = _patched(patch, change, old_path, data)
    if change.kind is ChangeKind.DELETE:
        if lines:
            raise explain.not_emptied(patch, old_path, lines)
        over.write(old_path, None)
        return placements
    new_path = base + (change.new_path or "")
    if new_path != old_path:
        _refuse_existing(patch, new_path, b"".join(lines), over)
    if change.kind is ChangeKind.RENAME:
        over.write(old_path, None)
    over.write(new_path, b"".join(lines))
    return placements


def _creates(change: FileChange, base: str, over: Overlay) -> bool:
    return change.kind is ChangeKind.CREATE or _creates_by_counts(change, base, over)


def _creates_by_counts(change: FileChange, base: str, over: Overlay) -> bool:
    """A plain diff marks a created file by its one hunk without old lines."""
    lone = change.kind is ChangeKind.MODIFY and len(change.hunks) == 1 and not change.hunks[0].old
    return lone and change.hunks[0].old_start == 0 and over.read(base + change.path) is None


def _create(patch: Patch, change: FileChange, base: str, over: Overlay) -> list[Placement]:
    path = base + (change.new_path or "")
    if len(change.hunks) > 1 or any(hunk.old for hunk in change.hunks):
        raise CorruptPatchError(
            patch.name, "creates the file, and yet has old lines for it", file=path, line=change.line
        )
    content = b"".join(line for hunk in change.hunks for line in hunk.new)
    _refuse_existing(patch, path, content, over)
    over.write(path, content)
    return []


def _refuse_existing(patch: Patch, path: str, content: bytes, over: Overlay) -> None:
    there = over.read(path)
    if there is None and not over.left_out(path):
        return
    same = there == content
    raise NewFileExistsError(
        patch.name,
        f"exists already, with {'identical' if same else 'different'} content",
        file=path,
        cause="this vLLM version brings the file itself"
        if same
        else "this vLLM version has a file of that name",
        remedy="drop this part of the patch"
        if same
        else "compare the two, then re-diff it as a change, or rename it",
    )


def _patched(patch: Patch, change: FileChange, path: str, data: bytes) -> tuple[list[bytes], list[Placement]]:
    """The lines of one file after every hunk, and where each was found."""
    lines = split_lines(data)
    out: list[bytes] = []
    placements: list[Placement] = []
    end = carried = 0
    for hunk in change.hunks:
        at = _place(patch, change, path, lines, hunk, end, carried)
        explain.refuse_foreign_endings(patch, path, lines, hunk)
        out += [*lines[end:at], *hunk.new]
        end, carried = at + len(hunk.old), at - hunk.stated
        placements.append(Placement(patch.name, path, hunk.number, hunk.stated + 1, at + 1))
    return [*out, *lines[end:]], placements


def _place(
    patch: Patch, change: FileChange, path: str, lines: list[bytes], hunk: Hunk, floor: int, carried: int
) -> int:
    if not hunk.old:
        if not lines:
            return 0
        raise NoContextError(
            patch.name, "no old line, so nothing shows where it belongs", file=path, hunk=hunk.number,
            line=hunk.line, remedy="diff again with context: git diff -U3",
        )  # fmt: skip
    places = [at for at in matches(lines, hunk.old, floor) if anchored(hunk, at, len(lines))]
    if not places:
        raise explain.mismatch(patch, change, path, lines, hunk, floor)
    chosen = choose(places, hunk.stated, carried)
    if isinstance(chosen, Tie):
        raise AmbiguousHunkError(
            patch.name,
            f"stated at line {hunk.stated + 1}, fits at {chosen.first + 1} and at {chosen.second + 1}",
            file=path,
            hunk=hunk.number,
            line=hunk.line,
            cause="the file has moved, and its lines are not unique there",
            remedy="re-diff against the pinned wheel, with more context: git diff -U10",
        )
    return chosen


__all__ = ["PACKAGE", "Applied", "PatchError", "apply_patch", "apply_series", "path_base"]
