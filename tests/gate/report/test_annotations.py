"""Annotations: at most ten, the worst first, one line each, and no foreign text is a command."""

from __future__ import annotations

import pytest

from ci.report.annotations import render_annotations
from tests.gate.report.golden_file import check_golden
from tests.gate.report.pages import rich
from tests.gate.report.states import STATES, many


@pytest.mark.parametrize("name", [*STATES, "rich"])
def test_golden(name: str) -> None:
    """Each state gives the lines of its golden file."""
    check_golden(f"{name}.annotations", render_annotations(rich() if name == "rich" else STATES[name]()))


def test_every_line_is_one_command_of_ours() -> None:
    """Line ends, colons and commas of foreign texts do not start or end anything."""
    for line in render_annotations(STATES["hostile"]()).splitlines():
        command, properties, _ = line.removeprefix("::").split("::", 2)[0].partition(" ")
        assert command in ("error", "warning")
        assert properties == " "
        title = line.removeprefix(f"::{command} title=").split("::")[0]
        assert ":" not in title
        assert "," not in title


def test_at_most_ten() -> None:
    """The worst is first, and the last line counts what is left out."""
    lines = render_annotations(many(30)).splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("::error title=regressed")
    assert lines[-1] == "::warning title=forkproof::22 more rows do not pass; the job summary lists them"


def test_green_says_nothing() -> None:
    """Nothing to say, nothing said."""
    assert render_annotations(STATES["pass"]()) == ""


def test_percent_signs_stay() -> None:
    """A percent sign of a text is not the start of an escape."""
    text = render_annotations(rich())
    assert "-2.91%25 after 4" in text
