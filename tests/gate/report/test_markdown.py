"""What a person sees on a pull request, whatever a stranger's text tries."""

from __future__ import annotations

import os
import re
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ci.report.markdown import MARKER, MAX_BYTES, code, prose, render_markdown
from ci.report.words import plain
from tests.gate.report.states import HOSTILE, STATES, many

GOLDEN = Path(__file__).parent / "golden"
TODAY = date(2026, 9, 1)
OWN_HTML = {"<code>", "</code>", "<br>", "<details>", "</details>", "<summary>", "</summary>"}


def _tokens(text: str) -> list[Token]:
    flat: list[Token] = []
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        flat += [token, *(token.children or ())]
    return flat


@pytest.mark.parametrize("name", STATES)
def test_golden(name: str) -> None:
    """Each state looks as its golden file; FORKPROOF_GOLDEN=write writes them anew."""
    text = render_markdown(STATES[name](), today=TODAY)
    path = GOLDEN / f"{name}.md"
    if os.environ.get("FORKPROOF_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", STATES)
def test_headline_says_the_outcome(name: str) -> None:
    """Marker first, then the word, then the exit code."""
    verdict = STATES[name]()
    lines = render_markdown(verdict).splitlines()
    assert lines[0] == MARKER
    assert lines[1].startswith("### ")
    assert lines[3].endswith(f"(exit {int(verdict.outcome[1])})")


def _inert(text: str) -> None:
    """Assert that the rendered page has no structure but our own."""
    for token in _tokens(text):
        assert token.type not in {
            "link_open",
            "image",
            "fence",
            "code_block",
            "em_open",
            "strong_open",
            "s_open",
        }
        if token.type == "html_inline":
            assert token.content in OWN_HTML
        if token.type == "html_block":
            assert set(re.findall(r"</?\w+>", token.content)) <= OWN_HTML | {MARKER}
            assert "script" not in token.content


def test_hostile_text_stays_text() -> None:
    """Pipes, backticks, HTML, links and emphasis in foreign text build nothing."""
    text = render_markdown(STATES["hostile"]())
    _inert(text)
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("| ")}
    assert widths == {8, 11}
    for forbidden in ("<script", "@team", " #1", "::error", "http://", "www.evil"):
        assert forbidden not in text
    assert text.count("</details>") == 1


def test_hostile_text_is_still_readable() -> None:
    """After rendering, a reader sees the very characters."""
    contents = "".join(
        token.content for token in _tokens(code(HOSTILE)) if token.type in {"text", "text_special"}
    )
    assert contents == HOSTILE


@given(st.text(max_size=100))
def test_any_text_is_inert_and_on_one_line(text: str) -> None:
    """No text of any kind escapes from a cell or a sentence."""
    for escaped in (code(text), prose(text)):
        assert "\n" not in escaped
        assert "|" not in escaped
        _inert(f"| a |\n|---|\n| {escaped} |\n\n- (1) {escaped}\n")


def test_mentions_stay_dead_after_decoding() -> None:
    """In prose a zero-width space stands behind @ and #, so that the decoded text mentions nobody."""
    decoded = "".join(
        token.content for token in _tokens(prose("@team #1 GH-1")) if token.type in {"text", "text_special"}
    )
    assert "@team" not in decoded
    assert "#1" not in decoded
    assert "GH-1" not in decoded


@pytest.mark.parametrize("rows", [0, 100, 5000])
def test_size(rows: int) -> None:
    """The comment fits, the worst row is in it, and what is left out is counted."""
    text = render_markdown(many(rows))
    assert len(text.encode()) <= MAX_BYTES
    assert "| regressed | cpu | property |" in text
    shown = text.count("| new | cpu |")
    left = re.search(r"(\d+) more rows are not shown", text)
    assert shown + (int(left.group(1)) if left else 0) == rows
    assert (left is None) == (rows < 5000)


@pytest.mark.parametrize("max_bytes", [3000, 8000, 20_000])
def test_hostile_texts_fit_as_well(max_bytes: int) -> None:
    """Escaping makes texts longer; the limit holds after escaping."""
    verdict = STATES["hostile"]()
    text = render_markdown(verdict, max_bytes=max_bytes)
    assert len(text.encode()) <= max_bytes
    assert text.count("<details>") == text.count("</details>")


def test_plain_shows_the_invisible() -> None:
    """Line ends, escape sequences and direction marks are written out, long texts cut."""
    assert plain("a\nb\x1b[0m\u202ec") == "a\\nb\\u001b[0m\\u202ec"
    assert plain("x" * 400) == "x" * 299 + "…"
