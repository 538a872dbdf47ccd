from __future__ import annotations

from ci.report.drift import details, drift_table, headline, render_drift
from ci.results.drift import HunkFate, HunkState, PatchFate, PatchState, ReleaseFate

HOSTILE = HunkFate(
    "vllm/m.py",
    3,
    HunkState.CONFLICT,
    10,
    None,
    "3 of its 7 lines </details> @someone",
    ("-x", "+```", "+`````"),
)
EXACT = HunkFate("vllm/m.py", 1, HunkState.EXACT, 1, 1)
FOLLOWS = HunkFate("vllm/m.py", 2, HunkState.FOLLOWS, 5, why="needs the lines of a.patch, hunk 3")
UPSTREAM = HunkFate("vllm/n.py", 1, HunkState.UPSTREAM, 5, 5)
FATES = [
    ReleaseFate(1, "1.0", patches=(PatchFate("a.patch", PatchState.APPLIES, (EXACT,)),)),
    ReleaseFate(
        1,
        "1.1",
        patches=(PatchFate("a.patch", PatchState.CONFLICTS, (EXACT, FOLLOWS, HOSTILE, UPSTREAM)),),
    ),
    ReleaseFate(1, "1.2", problem="no such wheel"),
]


def test_a_table_with_a_column_per_patch() -> None:
    """A conflict counts its hunks and says which wait or are upstream; an unread release says so."""
    table = drift_table(FATES)
    assert table.columns == ("vllm", "a.patch")
    assert table.rows == (
        ("1.0", "applies"),
        ("1.1", "conflicts (2 of 4 hunks; 1 of them for an earlier patch; 1 already upstream)"),
        ("1.2", "could not be judged"),
    )


def test_one_sentence_says_what_it_comes_to() -> None:
    """How many were judged, where the series applies, from where on it conflicts, what is not known."""
    assert headline(FATES) == (
        "2 releases judged; applies to 1.0; conflicts from 1.1 on; 1.2 could not be judged"
    )


def test_details_name_what_has_to_be_worked_on_and_nothing_else() -> None:
    """Open hunks with their differences; exact and upstream ones are left out."""
    lines = details(FATES)
    assert "  vllm/m.py, hunk 2: needs the lines of a.patch, hunk 3" in lines
    assert "      -x" in lines
    assert not [line for line in lines if "hunk 1:" in line]
    assert lines[-1] == "vllm 1.2: could not be judged: no such wheel"


def test_foreign_text_cannot_break_out_of_the_page() -> None:
    """Upstream's lines stand in a fence that they cannot close; a reason cannot close the folded part."""
    page = render_drift(FATES)
    assert page.count("</details>") == 2
    assert "@someone" not in page
    assert "  ``````diff\n" in page
    assert page.count("``````") == 2


def test_the_page_is_cut_to_fit() -> None:
    """The newest release is shown first, and what is left out is said."""
    page = render_drift(FATES, max_bytes=700)
    assert len(page.encode()) <= 700
    assert "older releases are not shown" in page
