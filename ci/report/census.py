"""A census as text: for a terminal, and as Markdown."""

from __future__ import annotations

from ci.report.words import plain
from ci.results.census import Census

HEADER = ("query tokens", "sequences", "longest", "path", "reason", "calls")
LEFT_ALIGNED = ("path", "reason")


def render_census(census: Census, layers: int | None = None) -> str:
    """The table with its columns aligned, and the sentences under it.

    Args:
        census: of a boot.
        layers: attention layers that print one line each per step, where calls are to be told as steps.
    """
    cells = [[plain(cell) for cell in line] for line in (HEADER, *table_rows(census))]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER))]
    lines = []
    for line in cells:
        words = [
            word.ljust(width) if name in LEFT_ALIGNED else word.rjust(width)
            for name, word, width in zip(HEADER, line, widths, strict=True)
        ]
        lines.append("  ".join(words).rstrip())
    return "\n".join([*lines, "", *facts(census, layers)]) + "\n"


def render_census_markdown(census: Census, layers: int | None = None) -> str:
    """The same for a pull request; what a log wrote stands in code, where nothing in it is read."""
    rules = ["---" if name in LEFT_ALIGNED else "---:" for name in HEADER]
    lines = [list(HEADER), rules, *([code(cell) for cell in line] for line in table_rows(census))]
    table = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([*table, "", *(f"- {fact}" for fact in facts(census, layers))]) + "\n"


def code(cell: str) -> str:
    """A cell in which Markdown and HTML read nothing."""
    return "`" + plain(cell).replace("`", "'").replace("|", "/") + "`"


def table_rows(census: Census) -> list[tuple[str, ...]]:
    """The table, one row per shape, path and reason, smallest batches first; see HEADER."""
    return [
        (str(one.tokens), str(one.seqs), str(one.longest), one.path, one.reasons, str(number))
        for one, number in sorted(census.calls.items())
    ]


def facts(census: Census, layers: int | None) -> list[str]:
    """What stands under the table, one sentence each."""
    mode = f"graph mode {census.graph_mode}"
    if census.hides_steps:
        share = f"{mode}: replayed steps print nothing, so steps are unseen; the calls above were captured"
    else:
        calls = (census.band_calls, census.count(verify=True))
        band, decode = (layers and census.band_share(layers)) or calls
        what = "decode steps" if layers else "calls of decode steps"
        share = f"{mode}: every step printed; {band} of {decode} {what} in the band of 9 to 16 query tokens"
    verify, prefill = census.count(verify=True), census.count(verify=False)
    return [
        share,
        f"{verify} calls of verify batches, {census.count(path='3D', verify=True)} of them on 3D",
        f"{prefill} calls of prefill chunks, {census.count(path='2D', verify=False)} of them on 2D",
        f"{census.capacity_fallbacks} calls fell back for lack of scratch rows",
    ]
