"""The times of kernelbench against the context: the arm under test, `stock`, `mq3d` and the bytes alone.

The arm before has no line: of it only the ratio is on record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ci.errors import GateError
from ci.report.charts import number
from ci.report.loglog import Line, Panel, picture
from ci.results.records import BaselineHead, BaselineRecord, Record, RunHead, Scalar

CASE = re.compile(r"call-(?P<call>\d+)|(?:tokens|short)-(?P<tokens>\d+)-(?P<context>\d+)")
"""Cases of one sequence and the usual heads: a call is one of 8 query tokens."""
CALL_TOKENS = 8
DRAWN_TOKENS = (8, 1)
"""A verify batch and a decode batch, each on axes of its own."""
MACHINE = ("gpu", "torch", "triton")
"""Conditions that stand under the picture."""
Times = Mapping[int, Mapping[str, float]]
"""Context -> metric -> value."""


class NothingToDrawError(GateError):
    """The records hold no time of a case that has its place on the axes."""


def draw_times(head: RunHead | BaselineHead, records: Iterable[Record | BaselineRecord]) -> str:
    """Return the picture of a run's or a baseline's records.

    Raises:
        NothingToDrawError: not one time is among them.
    """
    kept = list(records)
    found = times_by_tokens(kept)
    panels = [panel(tokens, found[tokens], head.subject.arm) for tokens in DRAWN_TOKENS if tokens in found]
    panels = [one for one in panels if any(line.points for line in one.lines)]
    if not panels:
        raise NothingToDrawError(
            f"the records of {head.lane}/{head.suite} hold no time of a call against a context",
            remedy=f"nox -s kernelbench -- --lane {head.lane}, on a machine of that lane, to its end",
        )
    return picture(
        f"Time of one attention call against the context, lane {head.lane}, arm {head.subject.arm}",
        about(head, kept),
        "tokens of context",
        "us",
        panels,
    )


def times_by_tokens(records: Iterable[Record | BaselineRecord]) -> dict[int, dict[int, dict[str, float]]]:
    """Return query tokens -> context -> metric -> value, of the numbers that are above zero."""
    found: dict[int, dict[int, dict[str, float]]] = {}
    for record in records:
        match = CASE.fullmatch(record.case)
        value = number(record.value)
        if match is None or value is None or value <= 0:
            continue
        tokens = CALL_TOKENS if match["call"] else int(match["tokens"])
        context = int(match["call"] or match["context"])
        found.setdefault(tokens, {}).setdefault(context, {})[record.metric] = value
    return found


def panel(tokens: int, times: Times, arm: str) -> Panel:
    """Return the lines of batches of `tokens` query tokens: the arm, those beside it, and the bytes.

    An arm under test that is one of those beside it has one line, its own.
    """
    beside = (
        Line("stock", "base", curve(times, "us_stock")),
        Line("mq3d", "step", curve(times, "us_mq3d")),
    )
    return Panel(
        f"{tokens} query token{'s' if tokens > 1 else ''}",
        (
            *(line for line in beside if line.name != arm),
            Line(f"{arm}, 2D", "off", curve(times, "us_2d")),
            Line(arm, "own", curve(times, "us_3d")),
            Line("its bytes alone", "floor", curve(times, "floor_us")),
        ),
    )


def curve(times: Times, metric: str) -> tuple[tuple[float, float], ...]:
    """Return a metric against the context, where it was measured."""
    return tuple(
        (float(context), times[context][metric]) for context in sorted(times) if metric in times[context]
    )


def about(head: RunHead | BaselineHead, records: Iterable[Record | BaselineRecord]) -> list[str]:
    """Return the lines under the picture: what was measured on, as far as it is known; the lane, and when."""
    if isinstance(head, RunHead):
        when = f"measured {head.started[:10]}"
    else:
        when = f"accepted {max(one.accepted.date for one in records if isinstance(one, BaselineRecord))}"
    named = machine(head.conditions)
    return [*([", ".join(named)] if named else []), f"lane {head.lane}, {when}"]


def machine(conditions: Mapping[str, Scalar]) -> list[str]:
    """Return what was measured on, as far as the conditions name it."""
    named = [(name, conditions.get(name)) for name in MACHINE]
    return [str(value) if name == "gpu" else f"{name} {value}" for name, value in named if value is not None]
