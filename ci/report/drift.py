"""The drift radar as a table, as details per hunk, and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ci.report.markdown import MAX_SUMMARY_BYTES, code, prose
from ci.report.words import plain
from ci.results.drift import OPEN, HunkFate, HunkState, PatchFate, PatchState, ReleaseFate

UNREAD = "could not be judged"
ICONS = {
    PatchState.APPLIES: "\u2705",
    PatchState.OFFSET: "\u2705",
    PatchState.UPSTREAM: "\u2b06\ufe0f",
    PatchState.CONFLICTS: "\u274c",
}
_TICKS = re.compile(r"`+")


@dataclass(frozen=True)
class DriftTable:
    """One row per release, one column per patch."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def drift_table(fates: Sequence[ReleaseFate]) -> DriftTable:
    """The table of all releases."""
    patches = next((fate.patches for fate in fates if fate.patches), ())
    columns = ("vllm", *(patch.patch for patch in patches))
    rows = []
    for fate in fates:
        cells = [show_patch(patch) for patch in fate.patches] or [UNREAD] * len(patches)
        rows.append((fate.version, *cells))
    return DriftTable(columns, tuple(rows))


def show_patch(fate: PatchFate) -> str:
    """One cell: the state in words, with counts where some hunks differ from the others."""
    hunks = len(fate.hunks)
    if fate.state is PatchState.OFFSET:
        return f"{fate.state.value} ({fate.count(HunkState.OFFSET)} of {hunks} hunks)"
    if fate.state is not PatchState.CONFLICTS:
        return str(fate.state.value)
    open_, follows = fate.count(*OPEN), fate.count(HunkState.FOLLOWS)
    upstream = fate.count(HunkState.UPSTREAM)
    extra = [f"{follows} of them for an earlier patch"] if follows else []
    extra += [f"{upstream} already upstream"] if upstream else []
    return f"conflicts ({'; '.join([f'{open_} of {hunks} hunks', *extra])})"


def headline(fates: Sequence[ReleaseFate]) -> str:
    """What it comes to, in one sentence."""
    read = [fate for fate in fates if fate.problem is None]
    parts = [f"{len(read)} releases judged" if len(read) != 1 else "1 release judged"]
    clean = [fate.version for fate in read if fate.state is not PatchState.CONFLICTS]
    first = next((fate.version for fate in read if fate.state is PatchState.CONFLICTS), None)
    parts.append(f"applies to {', '.join(clean)}" if clean else "applies to none of them")
    if first:
        parts.append(f"conflicts from {first} on")
    unread = [fate.version for fate in fates if fate.problem is not None]
    if unread:
        parts.append(f"{', '.join(unread)} {UNREAD}")
    return "; ".join(parts)


def details(fates: Sequence[ReleaseFate]) -> list[str]:
    """Plain lines about every hunk that somebody has to work on, release by release."""
    lines: list[str] = []
    for fate in fates:
        if fate.problem is not None:
            lines.append(f"vllm {fate.version}: {UNREAD}: {plain(fate.problem, 600)}")
        for patch in fate.patches:
            hunks = [hunk for hunk in patch.hunks if hunk.state in OPEN]
            if hunks:
                lines.append(f"vllm {fate.version}, {patch.patch}:")
            for hunk in hunks:
                lines.append(f"  {show_hunk(hunk)}")
                lines += [f"      {plain(line)}" for line in hunk.diff]
    return lines


def show_hunk(hunk: HunkFate) -> str:
    """Where, and why it does not apply."""
    where = f"{hunk.file}, hunk {hunk.hunk}" if hunk.hunk else hunk.file
    return f"{where}: {plain(hunk.why) or hunk.state.value}"


def render_drift(fates: Sequence[ReleaseFate], max_bytes: int = MAX_SUMMARY_BYTES) -> str:
    """The page: headline, table, and a folded part per release, the newest first, cut to fit."""
    table = drift_table(fates)
    parts = [f"## Drift of the series\n\n{prose(headline(fates))}\n", _markdown_table(table, fates)]
    used = sum(len(part.encode()) for part in parts)
    for index, fate in enumerate(reversed(fates)):
        part = _release(fate)
        used += len(part.encode()) + 1
        if used > max_bytes - 200:
            parts.append(f"{len(fates) - index} older releases are not shown; `nox -s drift` prints them.\n")
            break
        parts.append(part)
    return "\n".join(part for part in parts if part).rstrip("\n") + "\n"


def _markdown_table(table: DriftTable, fates: Sequence[ReleaseFate]) -> str:
    names = [code(column) if index else column for index, column in enumerate(table.columns)]
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for row, fate in zip(table.rows, fates, strict=True):
        icons = [ICONS[patch.state] for patch in fate.patches] or ["\u26a0\ufe0f"] * (len(row) - 1)
        cells = [f"{icon} {prose(cell)}" for icon, cell in zip(icons, row[1:], strict=True)]
        lines.append("| " + " | ".join([prose(row[0]), *cells]) + " |")
    return "\n".join(lines) + "\n"


def _release(fate: ReleaseFate) -> str:
    lines: list[str] = []
    if fate.problem is not None:
        lines.append(f"- {prose(fate.problem)}")
    for patch in fate.patches:
        for hunk in patch.hunks:
            if hunk.state in OPEN:
                lines.append(f"- {code(patch.patch)} {prose(show_hunk(hunk))}")
                lines += _fenced(hunk.diff)
    if not lines:
        return ""
    summary = f"<details><summary>vllm {prose(fate.version)}</summary>\n"
    return "\n".join([summary, *lines, "\n</details>\n"])


def _fenced(diff: Sequence[str]) -> list[str]:
    """A diff in a fence longer than any run of backticks in it, so that its text cannot end it."""
    if not diff:
        return []
    longest = max((len(run) for line in diff for run in _TICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return ["", f"  {fence}diff", *(f"  {plain(line)}" for line in diff), f"  {fence}", ""]
