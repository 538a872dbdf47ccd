"""A census as text and as Markdown."""

from __future__ import annotations

from ci.report.census import render_census, render_census_markdown

HEADER = ("query tokens", "path", "reason", "calls")
ROWS = [("9", "3D", "NONE(3d eligible)", "16"), ("1840", "2D", "max_query_len_policy>16", "4223")]


def test_numbers_stand_right_and_words_left() -> None:
    """The table is aligned, and the sentences follow it."""
    assert render_census(HEADER, ROWS, ["712 calls"]) == (
        "query tokens  path  reason                   calls\n"
        "           9  3D    NONE(3d eligible)           16\n"
        "        1840  2D    max_query_len_policy>16   4223\n"
        "\n"
        "712 calls\n"
    )


def test_a_log_cannot_write_markdown() -> None:
    """What a log wrote stands in code: neither a bar nor a backtick of it is read, and no line break."""
    text = render_census_markdown(HEADER, [("9", "3D", "a|b`<img>\n# c", "1")], ["fact"])
    assert text == (
        "| query tokens | path | reason | calls |\n"
        "| ---: | --- | --- | ---: |\n"
        "| `9` | `3D` | `a/b'<img>\\n# c` | `1` |\n"
        "\n"
        "- fact\n"
    )
