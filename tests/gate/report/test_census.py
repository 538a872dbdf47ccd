"""A census as text and as Markdown."""

from __future__ import annotations

from ci.report.census import render_census, render_census_markdown
from ci.results.census import Batch, Census


def test_numbers_stand_right_and_words_left() -> None:
    """The table is aligned, the smallest batches first, and the sentences follow it."""
    calls = {
        Batch(1840, 1, 1840, "2D", "max_query_len_policy>16"): 4223,
        Batch(9, 1, 9, "3D", "NONE(3d eligible)"): 16,
    }
    assert render_census(Census(calls, "NONE"), layers=16) == (
        "query tokens  sequences  longest  path  reason                   calls\n"
        "           9          1        9  3D    NONE(3d eligible)           16\n"
        "        1840          1     1840  2D    max_query_len_policy>16   4223\n"
        "\n"
        "graph mode NONE: every step printed; 1 of 1 decode steps in the band of 9 to 16 query tokens\n"
        "16 calls of verify batches, 16 of them on 3D\n"
        "4223 calls of prefill chunks, 4223 of them on 2D\n"
        "0 calls fell back for lack of scratch rows\n"
    )


def test_a_log_cannot_write_markdown() -> None:
    """What a log wrote stands in code: neither a bar nor a backtick of it is read, and no line break."""
    text = render_census_markdown(Census({Batch(9, 1, 9, "3D", "a|b`<img>\n# c"): 1}, "NONE"))
    assert text.startswith(
        "| query tokens | sequences | longest | path | reason | calls |\n"
        "| ---: | ---: | ---: | --- | --- | ---: |\n"
        "| `9` | `1` | `9` | `3D` | `a/b'<img>\\n# c` | `1` |\n"
        "\n"
        "- graph mode NONE: "
    )
