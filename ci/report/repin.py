"""The page of a moved pin: what changed, what became of each patch, what is left to do."""

from __future__ import annotations

from collections.abc import Sequence

from ci.report.drift import render_drift
from ci.report.markdown import code, prose
from ci.results.drift import ReleaseFate

Row = tuple[str, str, str]
"""What, before, after."""


def render_repin(title: str, rows: Sequence[Row], fate: ReleaseFate, steps: Sequence[str]) -> str:
    """The page in Markdown.

    Args:
        title: what was done, in words.
        rows: the values of the pin.
        fate: the series on the new release.
        steps: what a person has to do next, in order.
    """
    table = ["| | before | after |", "|---|---|---|"]
    table += [f"| {prose(what)} | {_value(before)} | {_value(after)} |" for what, before, after in rows]
    left = [f"{number}. {prose(step)}" for number, step in enumerate(steps, start=1)]
    parts = [
        f"# {prose(title)}\n",
        "\n".join(table) + "\n",
        render_drift([fate]),
        "## Left to do\n",
        "\n".join(left),
    ]
    return "\n".join(parts) + "\n"


def _value(text: str) -> str:
    return code(text) if text else "none"
