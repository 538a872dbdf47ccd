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
from ci.gate.throughput_validity import RATE, UNITS
from ci.gate.verdict import Verdict
from ci.results.records import AbSession
from ci.results.throughput import BootMeasure, Number, PointMeasure, SessionHead

INJECTED_LOSS = 0.10
"""A slowdown that a session on a quiet machine must see."""
POISON = 2.6
"""The specification's artifact: so many times slower in every process that loads it."""


@dataclass(frozen=True)
class Injection:
    """A loss that was put into the recorded boots of a prompt, and whether it is called slower."""

    point: str
    loss: float
    """As a fraction."""
    found: bool


def injections(head: SessionHead, boots: Sequence[BootMeasure], judge: Judge) -> list[Injection]:
    """What becomes of a loss at each prompt with an interval; boots that make no session show none.

    The loss is one in the metric's own sense, more milliseconds or fewer tokens per second: a policy that has
    its direction wrong does not find it. A prompt without an interval was not judged when another one ended
    the session.
    """
    made = []
    for point in head.points:
        session = session_of(head, boots, point, judge.metric)
        if not isinstance(session, AbSession):
            made.append(Injection(point, INJECTED_LOSS, found=False))
            continue
        noise, rate = judge.noise_of(point), UNITS[judge.metric] == RATE
        reach = reach_of(pair_ratios(session, rate), judge.design, noise)
        if reach is not None:
            change = min(math.log1p(-INJECTED_LOSS), -2 * reach)
            ratios = pair_ratios(injected(session, rate, change), judge.higher_is_better)
            found = decide_session(ratios, judge.design, noise, ERROR)[0] is Verdict.REGRESSED
            made.append(Injection(point, -math.expm1(change), found))
    return made


def reach_of(ratios: Sequence[float], design: Design, noise: Noise) -> float | None:
    """How far the interval goes on the side of a loss, in log ratios; None where there is none.

    It is the noise of the machine, and that is in the session's own verdict: a noisy session is inconclusive,
    or differs by more than its noise. A control that stayed green there would call the gate broken, so the
    loss grows with it, to twice as far. It does not grow with the margin, whose size it guards.

    Args:
        ratios: log ratios of the session's pairs, whole blocks.
        design: its looks; the last one that was reached counts.
        noise: the lane's A/A sessions.
    """
    looks = zip(design.sizes, look_tails(design.sizes, ERROR), strict=True)
    reached = [look for look in looks if look[0] <= len(ratios)]
    if not reached:
        return None
    size, tail = reached[-1]
    estimate = estimate_at(ratios[:size], design, noise, tail, tail)
    return None if estimate.upper is None else estimate.upper - estimate.effect


def injected(session: AbSession, higher_is_better: bool, change: float) -> AbSession:
    """Recorded boots with a known difference of arm B in place of whatever there was.

    The spread of the boots stays theirs.

    Args:
        session: the recorded boots.
        higher_is_better: False for times.
        change: log ratio, negative for a loss.
    """
    change -= fmean(pair_ratios(session, higher_is_better))
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
