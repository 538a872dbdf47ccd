from __future__ import annotations

from ci.report.repin import render_repin
from ci.results.drift import HunkFate, HunkState, PatchFate, PatchState, ReleaseFate

CONFLICT = HunkFate("vllm/m.py", 3, HunkState.CONFLICT, 10, None, "5 of its 6 lines", ("-old", "+new"))
FATE = ReleaseFate(1, "0.28.0", patches=(PatchFate("a.patch", PatchState.CONFLICTS, (CONFLICT,)),))


def test_the_page_says_what_moved_what_broke_and_what_is_left() -> None:
    """In this order; a hunk comes with what changed there."""
    page = render_repin(
        "The pin moves", [("vllm", "0.27.1", "0.28.0")], FATE, ["redo a.patch", "nox -s build"]
    )
    assert "| vllm | <code>0.27.1</code> | <code>0.28.0</code> |" in page
    assert "vllm/m.py, hunk 3: 5 of its 6 lines" in page
    assert "+new" in page
    assert page.endswith("## Left to do\n\n1. redo a.patch\n2. nox -s build\n")
    order = [page.index(text) for text in ("# The pin moves", "## Drift of the series", "## Left to do")]
    assert order == sorted(order)


def test_foreign_text_stays_text() -> None:
    """A name of a release's file cannot become Markdown."""
    page = render_repin("t", [("vllm", "`x`", "")], FATE, ["see <img> @someone"])
    assert "<img>" not in page
    assert "@someone" not in page
    assert "| none |" in page
