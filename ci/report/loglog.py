"""Lines over two logarithmic axes, as one SVG picture that follows the reader's light or dark setting."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ci.report.charts import text

WIDTH, HEIGHT = 430, 340
"""Of one panel, in pixels."""
LEFT, RIGHT, TOP, BOTTOM = 58, 108, 40, 46
"""Room around a panel's axes: numbers, names of the lines, title, numbers and what they count."""
LABEL_GAP = 14.0
"""Between two names of lines, so that they can be told apart."""
ABOUT_LINE = 16
"""From one line under the panels to the next."""
MIN_TICKS = 3
LOOK = (
    'role="img" aria-labelledby="t d" font-size="14" '
    'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"'
)
STYLE = """\
.axis { stroke: #57606a; fill: none; }
.grid { stroke: #d8dee4; fill: none; }
.title { fill: #1f2328; font-weight: 600; }
.note { fill: #57606a; font-size: 12px; }
.line { fill: none; stroke-width: 2; }
.own { stroke: #0969da; } .own-dot, .own-name { fill: #0969da; }
.step { stroke: #bc4c00; } .step-dot, .step-name { fill: #bc4c00; }
.base { stroke: #57606a; } .base-dot, .base-name { fill: #57606a; }
.off { stroke: #0969da; stroke-dasharray: 5 4; } .off-dot, .off-name { fill: #0969da; }
.floor { stroke: #1a7f37; stroke-dasharray: 2 3; } .floor-dot, .floor-name { fill: #1a7f37; }
.name { font-size: 12px; }
@media (prefers-color-scheme: dark) {
  .axis { stroke: #8b949e; } .grid { stroke: #30363d; }
  .title { fill: #f0f6fc; } .note { fill: #9ea7b1; }
  .own { stroke: #58a6ff; } .own-dot, .own-name { fill: #58a6ff; }
  .step { stroke: #f0883e; } .step-dot, .step-name { fill: #f0883e; }
  .base { stroke: #9ea7b1; } .base-dot, .base-name { fill: #9ea7b1; }
  .off { stroke: #58a6ff; } .off-dot, .off-name { fill: #58a6ff; }
  .floor { stroke: #3fb950; } .floor-dot, .floor-name { fill: #3fb950; }
}"""


@dataclass(frozen=True)
class Line:
    """One curve and its name."""

    name: str
    look: str
    """A class of `STYLE`: own, step, base, off or floor."""
    points: tuple[tuple[float, float], ...]
    """(across, up), both positive, from left to right."""


@dataclass(frozen=True)
class Panel:
    """Lines on one pair of axes."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class LogAxis:
    """Values from `low` to `high` on the pixels from `begin` to `end`, which may run downwards."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> list[float]:
        """Return the powers of ten on the axis; where they are few, twice and five times them as well."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for steps in ((1,), (1, 2, 5)):
            # Division, because 10.0 ** -1 * 2 is not what 2 / 10 is.
            exact = [
                step * 10**power if power >= 0 else step / 10**-power for power in powers for step in steps
            ]
            found = [float(one) for one in exact if self.low <= one <= self.high]
            if len(found) >= MIN_TICKS:
                break
        return found


def axis(values: Iterable[float], begin: float, end: float) -> LogAxis:
    """Return an axis over some positive values, with a tenth of room on both sides."""
    many = list(values)
    return LogAxis(min(many) / 1.1, max(many) * 1.1, begin, end)


def apart(places: Sequence[float], bottom: float, gap: float = LABEL_GAP) -> list[float]:
    """Return where names go: at their places, or as far from them as keeps names `gap` pixels apart.

    They are pushed down, and from `bottom` up again, whole rows of them if need be. Pixels count downwards.
    """
    moved = list(places)
    order = sorted(range(len(places)), key=places.__getitem__)
    above = -math.inf
    for at in order:
        moved[at] = above = max(places[at], above + gap)
    below = bottom
    for at in reversed(order):
        moved[at] = min(moved[at], below)
        below = moved[at] - gap
    return moved


def picture(title: str, about: Sequence[str], across: str, up: str, panels: Sequence[Panel]) -> str:
    """Return panels side by side on equal axes.

    Args:
        title: what a reader who cannot see the picture is told first.
        about: lines under it, such as the machine.
        across, up: what the axes count.
        panels: at least one line with a point among them.
    """
    points = [point for panel in panels for line in panel.lines for point in line.points]
    x = axis((one for one, _ in points), LEFT, WIDTH - RIGHT)
    y = axis((one for _, one in points), HEIGHT - BOTTOM, TOP)
    width, height = WIDTH * len(panels), HEIGHT + 8 + ABOUT_LINE * len(about)
    notes = [_note(LEFT, HEIGHT + 14 + ABOUT_LINE * at, line, "start") for at, line in enumerate(about)]
    drawn = [
        f'<g transform="translate({index * WIDTH} 0)">\n{_panel(panel, x, y, across, up)}\n</g>'
        for index, panel in enumerate(panels)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {LOOK}>',
            f'<title id="t">{text(title)}</title>',
            f'<desc id="d">{text(", ".join(about))}</desc>',
            f"<style>\n{STYLE}\n</style>",
            *drawn,
            *notes,
            "</svg>",
            "",
        ]
    )


def _panel(panel: Panel, x: LogAxis, y: LogAxis, across: str, up: str) -> str:
    parts = [f'<text class="title" x="{LEFT}" y="20">{text(panel.title)}</text>']
    for tick in x.ticks():
        at = f"{x.at(tick):.1f}"
        parts.append(f'<path class="grid" d="M{at} {y.begin}V{y.end}"/>')
        parts.append(_note(at, y.begin + 16, f"{tick:,.6g}", "middle"))
    for tick in y.ticks():
        at = f"{y.at(tick):.1f}"
        parts.append(f'<path class="grid" d="M{x.begin} {at}H{x.end}"/>')
        parts.append(_note(x.begin - 6, f"{y.at(tick) + 4:.1f}", f"{tick:,.6g}", "end"))
    parts.append(f'<path class="axis" d="M{x.begin} {y.end}V{y.begin}H{x.end}"/>')
    parts.append(_note(x.end, y.begin + 34, across, "end"))
    parts.append(_note(x.begin - 6, y.end - 6, up, "end"))
    lines = [line for line in panel.lines if line.points]
    names = apart([y.at(line.points[-1][1]) for line in lines], y.begin)
    parts += [_line(line, x, y, name) for line, name in zip(lines, names, strict=True)]
    return "\n".join(parts)


def _line(line: Line, x: LogAxis, y: LogAxis, name_at: float) -> str:
    places = [(f"{x.at(one):.1f}", f"{y.at(two):.1f}") for one, two in line.points]
    path = "L".join(f"{one} {two}" for one, two in places)
    dots = "".join(f'<circle class="{line.look}-dot" cx="{one}" cy="{two}" r="2.5"/>' for one, two in places)
    end = x.at(line.points[-1][0]) + 8
    name = f'<text class="name {line.look}-name" x="{end:.1f}" y="{name_at + 4:.1f}">{text(line.name)}</text>'
    return f'<path class="line {line.look}" d="M{path}"/>{dots}{name}'


def _note(x: float | str, y: float | str, shown: str, anchor: str) -> str:
    return f'<text class="note" x="{x}" y="{y}" text-anchor="{anchor}">{text(shown)}</text>'
