"""The plots of the HTML page, as plain boxes that follow the width of the screen; nothing is decided here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from ci.gate.ab import AbResult, percent
from ci.gate.rows import Row
from ci.gate.verdict import Verdict
from ci.report import words
from ci.results.records import Scalar

_CLASSES = {
    Verdict.PASS: "good",
    Verdict.IMPROVED: "good",
    Verdict.REGRESSED: "bad",
    Verdict.INVALID: "bad",
    Verdict.MISSING: "open",
    Verdict.INCONCLUSIVE: "open",
    Verdict.NEW: "new",
}
_SPARK_WIDTH, _SPARK_HEIGHT = 180, 30
_LONG_NUMBER = 1e6


@dataclass(frozen=True)
class Point:
    """One accepted value in the history of a metric."""

    date: str
    """ISO date of the commit."""
    value: Scalar


def text(foreign: str, limit: int = words.MAX_TEXT_CHARS) -> str:
    """Return foreign text as HTML text: nothing in it is a tag, an entity or invisible."""
    return escape(words.plain(foreign, limit), quote=True)


def css_class(verdict: Verdict) -> str:
    """Return the class that colours a verdict; its word always stands beside it."""
    return _CLASSES[verdict]


def word(verdict: Verdict, shown: str | None = None) -> str:
    """Return the badge of a verdict."""
    return f'<span class="word {css_class(verdict)}">{text(shown or verdict.value)}</span>'


def number(value: Scalar) -> float | None:
    """Return ``value`` if it can be drawn on an axis."""
    if isinstance(value, bool | str) or value is None or not math.isfinite(value):
        return None
    return float(value)


class Scale:
    """An axis over some values, with room on both sides; equal values still get a width."""

    def __init__(self, values: Iterable[float]) -> None:
        many = list(values)
        low, high = min(many), max(many)
        room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
        # Nothing below zero on the axis of something that is never negative.
        self.low, self.high = low - room if low < 0 else max(0.0, low - room), high + room

    def at(self, value: float) -> str:
        """Return the place of ``value`` in percent, kept inside of the axis."""
        share = (value - self.low) / (self.high - self.low)
        return f"{min(1.0, max(0.0, share)) * 100:.2f}%"

    def box(self, low: float, high: float) -> str:
        """Return the style of a box from ``low`` to ``high``, never too thin to be seen."""
        begin, end = ((one - self.low) / (self.high - self.low) for one in (low, high))
        begin, end = max(0.0, begin), min(1.0, end)
        return f"left:{begin * 100:.2f}%;width:{max(0.6, (end - begin) * 100):.2f}%"


def bullet(row: Row, history: Sequence[Point] = ()) -> str:
    """Return a metric against its band: shaded what passes, a tick for the baseline, a dot for the value."""
    got = number(row.got.value) if row.got else None
    accepted = number(row.baseline.value) if row.baseline else None
    values = [one for one in (got, accepted) if one is not None]
    values += [one for one in (number(point.value) for point in history) if one is not None]
    if row.band is not None:
        values += [one for one in (row.band.low, row.band.high) if one is not None]
    if not values:
        return ""
    scale = Scale(values)
    parts = []
    if row.band is not None:
        low = scale.low if row.band.low is None else row.band.low
        high = scale.high if row.band.high is None else row.band.high
        parts.append(f'<span class="band" style="{scale.box(low, high)}"></span>')
    if accepted is not None:
        parts.append(f'<span class="tick" style="left:{scale.at(accepted)}"></span>')
    if got is not None:
        parts.append(f'<span class="dot {css_class(row.verdict)}" style="left:{scale.at(got)}"></span>')
    unit = row.got.unit if row.got else row.baseline.unit if row.baseline else ""
    label = f"{row.metric}: got {words.show_value(row.got)}, accepted {words.show_value(row.baseline)}"
    return f'<div class="track" role="img" aria-label="{text(label)}">{"".join(parts)}</div>' + _scale(
        short(scale.low), short(scale.high), unit
    )


def _scale(low: str, high: str, unit: str = "") -> str:
    shown = "" if unit in ("", "1", "bool") else f" {text(unit, 20)}"
    return f'<div class="scale"><span>{low}</span><span>{high}{shown}</span></div>'


def short(value: float) -> str:
    """Return a number for an axis."""
    return f"{value:.3g}" if abs(value) < _LONG_NUMBER else f"{value:.2e}"


def sparkline(points: Sequence[Point]) -> str:
    """Return the accepted values over the commits that changed them, in the order of time."""
    values = [one for one in (number(point.value) for point in points) if one is not None]
    if not values:
        return ""
    low, high = min(values), max(values)
    width, height = _SPARK_WIDTH, _SPARK_HEIGHT

    def place(index: int, value: float) -> tuple[float, float]:
        across = width / 2 if len(values) == 1 else 4 + index * (width - 8) / (len(values) - 1)
        up = height / 2 if high == low else height - 4 - (value - low) / (high - low) * (height - 8)
        return across, up

    places = [place(index, value) for index, value in enumerate(values)]
    path = " ".join(f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(places))
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2"/>' for x, y in places[-1:])
    label = f"{len(values)} accepted values from {short(values[0])} to {short(values[-1])}"
    return (
        f'<svg class="spark" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
        f'<path d="{path}"/>{dots}</svg>'
    )


def interval(result: AbResult, verdict: Verdict, scale: Scale) -> str:
    """Return the interval of an A/B comparison with its effect and both margins on a shared axis."""
    loss, gain = math.log1p(-result.margin), math.log1p(result.margin)
    parts = [f'<span class="band" style="{scale.box(loss, scale.high)}"></span>']
    parts += [f'<span class="margin" style="left:{scale.at(one)}"></span>' for one in (loss, gain)]
    parts.append(f'<span class="zero" style="left:{scale.at(0.0)}"></span>')
    estimate = result.estimates[-1]
    if estimate.lower is not None and estimate.upper is not None:
        parts.append(f'<span class="span" style="{scale.box(estimate.lower, estimate.upper)}"></span>')
    parts.append(f'<span class="dot {css_class(verdict)}" style="left:{scale.at(estimate.effect)}"></span>')
    return (
        f'<div class="track" role="img" aria-label="effect {percent(estimate.effect)}">{"".join(parts)}</div>'
        + _scale(percent(scale.low), percent(scale.high))
    )


def interval_scale(results: Iterable[AbResult]) -> Scale:
    """Return one axis for all intervals, so that they can be compared by eye."""
    values = [0.0]
    for result in results:
        values += [math.log1p(-result.margin), math.log1p(result.margin)]
        for one in result.estimates[-1:]:
            values += [end for end in (one.lower, one.upper, one.effect) if end is not None]
    return Scale(values)


def used_share(row: Row) -> float | None:
    """Return how much of a one-sided bound a value uses, 1 at the bound; None where that means nothing."""
    got = number(row.got.value) if row.got else None
    if row.band is None or row.band.low is not None or row.band.high is None or got is None:
        return None
    if row.band.high <= 0:
        return 0.0 if got <= row.band.high else 1.0
    return max(0.0, got / row.band.high)


def heat_cell(rows: Sequence[Row]) -> str:
    """Return the cell of one case on one lane: its worst verdict, else how much of its bounds it uses."""
    if not rows:
        return '<td class="none">&#8211;</td>'
    worst = min(rows, key=lambda row: row.verdict.rank)
    if worst.verdict not in (Verdict.PASS, Verdict.IMPROVED):
        shown = f"{len([row for row in rows if row.verdict is worst.verdict])} {worst.verdict.value}"
        return f'<td class="{"bad" if css_class(worst.verdict) == "bad" else "open"}">{shown}</td>'
    shares = [share for share in map(used_share, rows) if share is not None]
    if not shares:
        return "<td>pass</td>"
    share = max(shares)
    # Never so dark that the text on it becomes hard to read.
    return f'<td style="background:rgba(var(--heat),{min(share, 1) * 0.45:.2f})">{share:.0%}</td>'


@dataclass(frozen=True)
class Step:
    """One bar of a waterfall, from where it starts to where it ends."""

    row: Row
    begin: float
    end: float
    late: bool = False
    """Memory that the budget did not know of."""


def load_steps(rows: Sequence[Row]) -> list[Step]:
    """Return the byte counts of one case, each starting where the one before ended."""
    steps, at = [], 0.0
    for row in rows:
        value = number(row.got.value if row.got else None)
        if value is not None and row.metric.startswith("bytes_"):
            steps.append(Step(row, at, at + value, late=row.metric == "bytes_after"))
            at += value
    return steps


BOOT_STEPS = {"at_load": 1, "load_rise": 1, "kv_fall": -1, "free_rise": -1}
"""What a pair of boots measures, as it changes the memory in use: 1 more, -1 less."""


def boot_steps(rows: Sequence[Row]) -> list[Step]:
    """Return what the subject's boot has more or less in use than the reference boot.

    The scratch is a part of what model loading rose by, and free memory is
    what remains in the end, so both start at zero. The KV budget falls from
    where model loading rose to.
    """
    found = {row.metric: row for row in rows if number(row.got.value if row.got else None) is not None}
    steps, loaded = [], 0.0
    for metric, sign in BOOT_STEPS.items():
        if metric in found:
            row = found[metric]
            change = sign * (number(row.got.value if row.got else None) or 0.0)
            begin = loaded if metric == "kv_fall" else 0.0
            steps.append(Step(row, begin, begin + change))
            loaded = change if metric == "load_rise" else loaded
    return steps


def waterfall(steps: Sequence[Step]) -> str:
    """Return the steps as bars on one axis with its zero."""
    scale = Scale([0.0, *(end for step in steps for end in (step.begin, step.end))])
    zero = f'<span class="zero" style="left:{scale.at(0.0)}"></span>' if scale.low < 0 else ""
    lines = []
    for step in steps:
        row = step.row
        kind = css_class(row.verdict) if row.verdict is not Verdict.PASS else "late" if step.late else ""
        low, high = sorted((step.begin, step.end))
        bar = f'<span class="bar {kind}" style="{scale.box(low, high)}"></span>' if high > low else ""
        lines.append(
            f'<div class="metric"><code>{text(row.metric, 60)}</code>'
            f'<div class="track" role="img" aria-label="{text(words.show_value(row.got))}">{bar}{zero}</div>'
            f"<span>{text(words.show_value(row.got))} {word(row.verdict)}</span></div>"
        )
    return "".join(lines)
