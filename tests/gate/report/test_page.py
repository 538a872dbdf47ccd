"""The HTML page: every part is there, nothing foreign is alive. The browser's part is in tests/pages."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.gate.rows import GateVerdict
from ci.report.charts import Point, text
from ci.report.page import MAX_METRICS, MAX_ROWS, render_page
from ci.report.page_style import STYLE
from tests.gate.report.golden_file import TODAY, check_golden
from tests.gate.report.pages import rich
from tests.gate.report.states import HOSTILE, STATES, many

VOID = {"meta", "br", "circle", "path"}
WORDS = """
html head meta title style body main header section h1 h2 h3 p div span table thead tbody tr th td code br
small b i ul li details summary svg path circle
"""
TAGS = set(WORDS.split())


class _Outline(HTMLParser):
    """Checks that tags close in order and that only known ones appear."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def outline(page: str) -> _Outline:
    """Parse a page and check what every page must keep."""
    parsed = _Outline()
    parsed.feed(page)
    assert parsed.open == []
    assert {tag for tag, _ in parsed.seen} <= TAGS
    names = {name for _, attributes in parsed.seen for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in ("href", "src")}
    return parsed


@pytest.mark.parametrize("name", [*STATES, "rich"])
def test_golden(name: str) -> None:
    """Each state looks as its golden file, the style left out."""
    verdict = rich() if name == "rich" else STATES[name]()
    page = render_page(verdict, today=TODAY).replace(STYLE, "")
    outline(page)
    check_golden(f"{name}.html", page.replace("><", ">\n<"))


def test_page_asks_nobody_and_runs_nothing() -> None:
    """There is no script, no address to load from, and a policy that forbids both."""
    page = render_page(rich())
    assert "default-src &#x27;none&#x27;" in page
    assert "<script" not in page
    assert not re.search(r"(?:url\(|@import|https?://|//[a-z])", page)


@given(st.text(max_size=80))
def test_any_foreign_text_stays_text(foreign: str) -> None:
    """Whatever a name or reason holds, the page has the same tags, and the text is shown escaped."""
    verdict = STATES["regressed"]()
    row = dataclasses.replace(verdict.suites[0].rows[0], case=foreign, why=foreign, remedy=foreign)
    suite = dataclasses.replace(verdict.suites[0], rows=(row,), warnings=(foreign,))
    outline(render_page(GateVerdict((suite,), (foreign,))))


def test_hostile_text_is_shown_as_it_is() -> None:
    """A reader sees the characters that somebody wrote, and they do nothing."""
    parsed = outline(render_page(STATES["hostile"]()))
    assert any(HOSTILE[:80] in piece for piece in parsed.texts)
    assert text('<b a="1">&') == "&lt;b a=&quot;1&quot;&gt;&amp;"


def test_parts_of_a_full_page() -> None:
    """Bands, intervals, heat map, waterfall, transcriptions and history are all there."""
    history = {("cpu", "property", "boot", "step_ms"): [Point("2026-08-01", 9.0), Point("2026-09-01", 10.0)]}
    page = render_page(rich(), history=history)
    for words in (
        "Speed, arm against arm",
        "oracle: cases by lane",
        "not run",
        "Memory, step by step",
        "Transcribed baselines",
        "each metric against its band",
        "2 accepted values from 9 to 10",
        "awaiting confirmation",
    ):
        assert words in page, words


def test_age_who_and_why_stand_at_each_row() -> None:
    """A baseline's age, its acceptance and whether it was only copied are shown."""
    page = render_page(rich(), today=TODAY)
    assert "accepted 31 days ago by Ada: first run" in page
    assert "accepted transcribed, never measured here, 31 days ago by Ada: first run" in page


def test_long_reports_are_cut_and_say_so() -> None:
    """Neither rows nor metrics grow without end."""
    page = render_page(many(MAX_ROWS + MAX_METRICS))
    assert f"{MAX_METRICS + 1} more rows are not shown" in page
    assert page.count("measured, but not in the plan") == MAX_ROWS - 1
    assert "more metrics are not drawn" in page
