"""Recorded boots with a known fault put into them: what a throughput session has to notice.  Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from msgspec.structs import replace

from ci.gate.ab import pair_ratios
from ci.results.records import AbSession
from ci.results.throughput import BootMeasure, Number, PointMeasure

INJECTED_LOSS = 0.10
"""A slowdown that every session which can see anything must see."""
POISON = 2.6
"""The specification's artifact: so many times slower in every process that loads it."""


def injected(session: AbSession, higher_is_better: bool, loss: float = INJECTED_LOSS) -> AbSession:
    """Recorded boots with a known loss in arm B in place of whatever difference there was.

    The spread of the boots stays theirs, so what cannot be found here could not have been found at all.
    """
    effect = fmean(pair_ratios(session, higher_is_better))
    change = math.log1p(-loss) - effect
    factor = math.exp(change if higher_is_better else -change)
    values = tuple(
        value * factor if session.order[place] == "B" else value for place, value in enumerate(session.values)
    )
    return AbSession(session.run, session.arms, session.order, values)


def poisoned(boots: Sequence[BootMeasure], factor: float = POISON) -> list[BootMeasure]:
    """Recorded boots as a poisoned artifact would have left them: slower by a factor wherever code is loaded.

    The first boot of each arm compiles, the others load what it wrote. Texts stay as they were.
    """
    seen: set[str] = set()
    changed = []
    for boot in boots:
        if boot.letter in seen:
            slower = tuple(slowed(point, factor) for point in boot.points)
            changed.append(replace(boot, modules_loaded=2, modules_compiled=0, lineage="warm", points=slower))
        else:
            seen.add(boot.letter)
            changed.append(replace(boot, modules_loaded=0, modules_compiled=2, lineage="cold"))
    return changed


def slowed(point: PointMeasure, factor: float) -> PointMeasure:
    """One prompt, every step of which took longer."""
    return replace(
        point,
        step_ms=scaled(point.step_ms, factor),
        isolated_step_ms=scaled(point.isolated_step_ms, factor),
        decode_tok_s=scaled(point.decode_tok_s, 1 / factor),
        isolated_tok_s=scaled(point.isolated_tok_s, 1 / factor),
    )


def scaled(number: Number, factor: float) -> Number:
    """A number times a factor; unknown stays unknown."""
    return number if number.value is None else Number(number.value * factor)
