"""A census as text: for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from ci.report.words import plain

LEFT_ALIGNED = ("path", "reason")


def render_census(header: Sequence[str], rows: Sequence[Sequence[str]], facts: Sequence[str]) -> str:
    """The table with its columns aligned, and the sentences under it."""
    cells = [[plain(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(header))]
    lines = []
    for line in cells:
        words = [
            word.ljust(width) if name in LEFT_ALIGNED else word.rjust(width)
            for name, word, width in zip(header, line, widths, strict=True)
        ]
        lines.append("  ".join(words).rstrip())
    return "\n".join([*lines, "", *facts]) + "\n"


def render_census_markdown(header: Sequence[str], rows: Sequence[Sequence[str]], facts: Sequence[str]) -> str:
    """The same for a pull request; what a log wrote stands in code, where nothing in it is read."""
    rules = ["---" if name in LEFT_ALIGNED else "---:" for name in header]
    lines = [list(header), rules, *([code(cell) for cell in line] for line in rows)]
    table = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([*table, "", *(f"- {fact}" for fact in facts)]) + "\n"


def code(cell: str) -> str:
    """A cell in which Markdown and HTML read nothing."""
    return "`" + plain(cell).replace("`", "'").replace("|", "/") + "`"
