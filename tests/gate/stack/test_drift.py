from __future__ import annotations

import difflib
from collections import Counter
from pathlib import Path

import pytest

from ci.results.drift import HunkState, PatchState
from ci.stack.drift import MAX_DIFF_LINES, judge_series, show_diff
from ci.stack.patchfile import parse_patch
from ci.stack.patchmodel import Patch
from ci.stack.tree import MemoryTree

LINES = [f"line {n}\n" for n in range(1, 41)]
PATH = "vllm/m.py"


def text(lines: list[str]) -> bytes:
    """The file of those lines."""
    return "".join(lines).encode()


def edit(old: list[str], new: list[str], name: str = "one.patch", path: str = PATH) -> Patch:
    """The patch that git would write from `old` to `new`."""
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    return parse_patch(name, "".join(lines).encode(), 1)


def changed(lines: list[str], **at: str) -> list[str]:
    """`lines` with some replaced: `l10="x"` puts x on line 10."""
    out = list(lines)
    for place, new in at.items():
        out[int(place[1:]) - 1] = new + "\n"
    return out


PATCHED = changed(LINES, l10="ten", l30="thirty")
ONE = edit(LINES, PATCHED)


def judge(release: list[str], *patches: Patch) -> list[tuple[PatchState, list[HunkState]]]:
    """States of each patch and of its hunks on a release."""
    fates = judge_series(patches or (ONE,), MemoryTree({PATH: text(release)}))
    return [(fate.state, [hunk.state for hunk in fate.hunks]) for fate in fates]


def test_the_release_it_was_cut_against() -> None:
    """Every hunk on its stated line: the patch applies."""
    assert judge(LINES) == [(PatchState.APPLIES, [HunkState.EXACT] * 2)]


def test_lines_added_above_move_a_hunk() -> None:
    """A hunk that stands elsewhere is an offset, with both lines; the one before it is exact."""
    release = [*LINES[:20], "new\n", "new\n", *LINES[20:]]
    (fate,) = judge_series([ONE], MemoryTree({PATH: text(release)}))
    assert fate.state is PatchState.OFFSET
    assert [(h.state, h.stated, h.found) for h in fate.hunks] == [
        (HunkState.EXACT, 7, 7),
        (HunkState.OFFSET, 27, 29),
    ]


def test_a_conflict_shows_what_changed_there_and_the_other_hunks_are_judged() -> None:
    """One hunk conflicts, with the lines that differ; the next is found all the same."""
    (fate,) = judge_series([ONE], MemoryTree({PATH: text(changed(LINES, l9="nine, rewritten"))}))
    assert fate.state is PatchState.CONFLICTS
    first, second = fate.hunks
    assert (first.hunk, first.state, first.found) == (1, HunkState.CONFLICT, None)
    assert first.why == "6 of its 7 expected lines stand around line 7"
    assert first.diff == ("@@", " line 8", "-line 9", "+nine, rewritten", " line 10")
    assert (second.hunk, second.state, second.found) == (2, HunkState.EXACT, 27)


def test_lines_inserted_inside_a_hunk_are_shown() -> None:
    """All expected lines are there, with another between them."""
    release = [*LINES[:10], "between\n", *LINES[10:]]
    (fate,) = judge_series([ONE], MemoryTree({PATH: text(release)}))
    assert fate.hunks[0].why.startswith("other lines stand between its 7 expected ones")
    assert "+between" in fate.hunks[0].diff


def test_upstream_has_all_of_it() -> None:
    """A release with the new side of every hunk has taken the patch, wherever its lines are."""
    assert judge(PATCHED) == [(PatchState.UPSTREAM, [HunkState.UPSTREAM] * 2)]
    assert judge(["new\n", *PATCHED])[0][0] is PatchState.UPSTREAM


def test_upstream_has_a_part_of_it() -> None:
    """A patch that is half upstream has to be cut anew: conflicts, though no hunk does."""
    release = changed(LINES, l30="thirty")
    assert judge(release) == [(PatchState.CONFLICTS, [HunkState.EXACT, HunkState.UPSTREAM])]


def test_the_next_patch_stands_on_what_could_be_applied() -> None:
    """A hunk that needs an earlier one that conflicts follows from it; one that does not is judged."""
    two = edit(PATCHED, changed(PATCHED, l10="TEN", l30="THIRTY"), "two.patch")
    states = judge(changed(LINES, l9="nine, rewritten"), ONE, two)
    assert states[1] == (PatchState.CONFLICTS, [HunkState.FOLLOWS, HunkState.EXACT])


def test_a_file_that_moved_is_found() -> None:
    """The fate of a file that is gone names the file in which its hunks match."""
    tree = MemoryTree({"vllm/new/m.py": text(LINES), "vllm/other.py": b""})
    (fate,) = judge_series([ONE], tree)
    assert [hunk.state for hunk in fate.hunks] == [HunkState.GONE] * 2
    assert "no such file in this release" in fate.hunks[0].why
    assert "vllm/new/m.py" in fate.hunks[0].why


def test_a_file_that_is_nowhere() -> None:
    """Nothing to point at: removed or renamed."""
    (fate,) = judge_series([ONE], MemoryTree({"vllm/other.py": b""}))
    assert "removed or renamed upstream" in fate.hunks[0].why
    assert fate.state is PatchState.CONFLICTS


@pytest.mark.parametrize(
    ("there", "state"),
    [(b"a\nb\n", PatchState.UPSTREAM), (b"other\n", PatchState.CONFLICTS), (None, PatchState.APPLIES)],
)
def test_a_created_file(there: bytes | None, state: PatchState) -> None:
    """The release has it already, has another of that name, or has none."""
    patch = parse_patch("new.patch", b"--- /dev/null\n+++ b/vllm/new.py\n@@ -0,0 +1,2 @@\n+a\n+b\n", 1)
    tree = MemoryTree({PATH: text(LINES), **({"vllm/new.py": there} if there is not None else {})})
    assert judge_series([patch], tree)[0].state is state


def test_a_refusal_of_the_whole_is_never_lost() -> None:
    """Hunks that match and are refused all the same (line endings) do not come out as applying."""
    crlf = [line.replace("\n", "\r\n") for line in LINES]
    (fate,) = judge_series([ONE], MemoryTree({PATH: text(crlf)}))
    assert fate.state is PatchState.CONFLICTS


def test_a_long_difference_is_cut() -> None:
    """What is shown ends after a fixed number of lines and says how many follow."""
    shown = show_diff([b"a\n"], [b"%d\n" % n for n in range(100)])
    assert len(shown) == MAX_DIFF_LINES + 1
    assert shown[-1].endswith("more lines")


def test_a_line_of_dashes_is_shown() -> None:
    """A removed line that looks like a diff's file name stays in the diff."""
    assert show_diff([b"-- x\n", b"b\n"], [b"b\n"]) == ("@@", "--- x", " b")


def test_our_own_series_on_a_tree_without_it(tmp_path: Path) -> None:
    """A release without any of the files: every hunk that changes one is gone, and nothing raises."""
    from ci.stack.series import OWN_SERIES, read_series

    fates = judge_series(read_series(OWN_SERIES).patches, MemoryTree({"vllm/x.py": b""}))
    states = Counter(hunk.state for fate in fates for hunk in fate.hunks)
    new_files = 1
    assert states == {HunkState.GONE: states.total() - new_files, HunkState.EXACT: new_files}
