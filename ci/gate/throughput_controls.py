"""Recorded boots with a known fault put into them: what a throughput session has to notice.  Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from msgspec.structs import replace

from ci.gate.ab import ERROR, Design, Noise, decide_session, estimate_at, pair_ratios
from ci.gate.looks import look_tails
from ci.gate.throughput import Judge, session_of
from ci.gate.verdict import Verdict
from ci.results.records import AbSession
from ci.results.throughput import BootMeasure, Number, PointMeasure, SessionHead

INJECTED_LOSS = 0.10
"""A slowdown that a session on a quiet machine must see."""
POISON = 2.6
"""The specification's artifact: so many times slower in every process that loads it."""


def plain_loss(ratios: Sequence[float], design: Design, noise: Noise) -> float:
    """Return a loss that nobody could overlook in boots with this spread, as a fraction: 10% at least.

    Its interval would end below the margin even if it reached twice as far. How far it reaches is the noise
    of the machine, and that is in the session's own verdict: a noisy session is inconclusive, or differs by
    more than its noise. A control that stayed green there would call the gate broken.

    Args:
        ratios: log ratios of the session's pairs, whole blocks.
        design: its margin and looks; the last look that was reached counts.
        noise: the lane's A/A sessions.
    """
    looks = zip(design.sizes, look_tails(design.sizes, ERROR), strict=True)
    reached = [look for look in looks if look[0] <= len(ratios)]
    if not reached:
        return INJECTED_LOSS
    size, tail = reached[-1]
    estimate = estimate_at(ratios[:size], design, noise, tail, tail)
    if estimate.upper is None:
        return INJECTED_LOSS
    return max(INJECTED_LOSS, -math.expm1(design.loss - 2 * (estimate.upper - estimate.effect)))


def injected(session: AbSession, higher_is_better: bool, loss: float) -> AbSession:
    """Recorded boots with a known loss in arm B in place of whatever difference there was.

    The spread of the boots stays theirs.

    Args:
        session: the recorded boots.
        higher_is_better: False for times.
        loss: as a fraction.
    """
    effect = fmean(pair_ratios(session, higher_is_better))
    change = math.log1p(-loss) - effect
    factor = math.exp(change if higher_is_better else -change)
    values = tuple(
        value * factor if session.order[place] == "B" else value for place, value in enumerate(session.values)
    )
    return AbSession(session.run, session.arms, session.order, values)


@dataclass(frozen=True)
class Injection:
    """A known loss that was put into the recorded boots of a prompt, and whether it is called slower."""

    point: str
    loss: float
    """As a fraction."""
    found: bool


def injections(head: SessionHead, boots: Sequence[BootMeasure], judge: Judge) -> list[Injection]:
    """What becomes of a plain loss at each prompt; in boots that make no session, none is found."""
    made = []
    for point in head.points:
        session, loss, found = session_of(head, boots, point, judge.metric), INJECTED_LOSS, False
        if isinstance(session, AbSession):
            higher, noise = judge.higher_is_better, judge.noise_of(point)
            loss = plain_loss(pair_ratios(session, higher), judge.design, noise)
            ratios = pair_ratios(injected(session, higher, loss), higher)
            found = decide_session(ratios, judge.design, noise, ERROR)[0] is Verdict.REGRESSED
        made.append(Injection(point, loss, found))
    return made


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
