"""What a person sees in a terminal or a log."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest

from ci.report.console import render_console
from tests.gate.report.states import STATES, many

GOLDEN = Path(__file__).parent / "golden"
TODAY = date(2026, 9, 1)


@pytest.mark.parametrize("name", STATES)
def test_golden(name: str) -> None:
    """Each state looks as its golden file; FORKPROOF_GOLDEN=write writes them anew."""
    text = render_console(STATES[name](), today=TODAY)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("FORKPROOF_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("width", [80, 160])
def test_last_line_agrees_and_is_whole(name: str, width: int) -> None:
    """The last line is the verdict, not wrapped, with the exit code of the outcome."""
    verdict = STATES[name]()
    last = render_console(verdict, width=width).splitlines()[-1]
    assert last.startswith("verdict: ")
    assert last.endswith(f"(exit {int(verdict.outcome[1])})")


def test_color_only_when_asked() -> None:
    """Escape sequences appear with colour and never without."""
    verdict = STATES["mixed"]()
    assert "\x1b[" not in render_console(verdict)
    assert "\x1b[" in render_console(verdict, color=True)


@pytest.mark.parametrize("width", [80, 100, 160])
def test_foreign_text_never_starts_a_line(width: int) -> None:
    """A runner that reads workflow commands at the start of a line finds none."""
    for line in render_console(STATES["hostile"](), width=width).splitlines():
        assert not line.lstrip().startswith("::")


def test_many_rows_are_cut_worst_first() -> None:
    """A long list shows the worst rows and says how many it leaves out."""
    text = render_console(many(500))
    assert "301 more rows are not shown" in text
    assert text.index("regressed") < text.index("extra-0")
