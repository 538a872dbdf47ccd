"""How often the A/B comparison is right: simulated boots through the same functions that judge real ones."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ci.gate.ab import ERROR, Design, Noise, decide, decide_session, pair_ratios, pool
from ci.gate.usual import UsualRule, accuses
from ci.gate.verdict import Verdict
from ci.results.aa import BLOCK
from ci.results.records import AbSession

MARGIN = 0.005
AA_SESSIONS = 4
AA_PAIRS = 8
"""What a lane is assumed to have stored: four evenings of sixteen boots."""
EFFECTS = (0.0, -0.005, -0.01, -0.02, -0.03)
NOISES = (0.001, 0.003, 0.009)
PAIRS = (2, 4, 6, 8)
"""Whole A B B A blocks; an odd number of pairs would leave a drift in the mean."""
USUAL_BOOTS = (2, 3, 5, 8)
OUTLIER_SHARE = 0.1
_SPEED = 100.0


@dataclass(frozen=True)
class Disturbance:
    """What else happens to the boots, to A/A sessions as to all others."""

    name: str
    drift: float = 0.0
    """Log ratio per boot."""
    outlier_loss: float = 0.0
    """How much slower one boot in ten is."""


DISTURBANCES = (
    Disturbance("none"),
    Disturbance("drift 0.1% per boot", drift=-0.001),
    Disturbance("1 boot in 10 slower by 1%", outlier_loss=0.01),
    Disturbance("1 boot in 10 slower by 3%", outlier_loss=0.03),
    Disturbance("1 boot in 10 slower by 10%", outlier_loss=0.10),
)


@dataclass(frozen=True)
class Scenario:
    """One row of the table."""

    effect: float
    """True relative change of speed of arm B."""
    noise: float
    """Standard deviation of one boot, relative."""
    pairs: int
    disturbance: Disturbance = DISTURBANCES[0]


@dataclass(frozen=True)
class Shares:
    """What became of the simulated comparisons; shares of 1."""

    first: dict[Verdict, float]
    """After the first session, where ``regressed`` is still held."""
    final: dict[Verdict, float]
    """After the confirmation of those that were held."""
    mean_pairs: float
    """Pairs that the first session used."""


def scenarios() -> Iterator[Scenario]:
    """Return every row of the table."""
    for disturbance, noise, pairs, effect in itertools.product(DISTURBANCES, NOISES, PAIRS, EFFECTS):
        yield Scenario(effect, noise, pairs, disturbance)


def simulate(scenario: Scenario, repeats: int, seed: int) -> Shares:
    """Draw ``repeats`` comparisons, each with A/A sessions of its own, and judge them."""
    rng = random.Random(f"{seed} {scenario}")  # noqa: S311 - a simulation, not a secret
    design = Design(MARGIN, scenario.pairs)
    first: Counter[Verdict] = Counter()
    final: Counter[Verdict] = Counter()
    pairs = 0
    for _ in range(repeats):
        noise = _draw_noise(scenario, rng)
        session = draw_session(scenario, scenario.effect, scenario.pairs, rng, "first")
        verdict, estimate = decide_session(pair_ratios(session), design, noise, ERROR)
        first[verdict] += 1
        pairs += estimate.pairs
        if verdict is Verdict.REGRESSED:
            fresh = draw_session(scenario, scenario.effect, scenario.pairs, rng, "second")
            verdict = decide([session, fresh], design, noise, higher_is_better=True).verdict
        final[verdict] += 1
    return Shares(_shares(first, repeats), _shares(final, repeats), pairs / repeats)


def draw_session(scenario: Scenario, effect: float, pairs: int, rng: random.Random, run: str) -> AbSession:
    """Return speeds of one session of boots in the order A B B A."""
    order = (BLOCK * pairs)[: 2 * pairs]
    values = []
    for index, arm in enumerate(order):
        log = rng.gauss(0, scenario.noise) + scenario.disturbance.drift * index
        if scenario.disturbance.outlier_loss and rng.random() < OUTLIER_SHARE:
            log += math.log1p(-scenario.disturbance.outlier_loss)
        values.append(_SPEED * math.exp(log) * (1 + effect if arm == "B" else 1))
    return AbSession(run, ("a", "b"), order, tuple(values))


def _draw_noise(scenario: Scenario, rng: random.Random) -> Noise:
    return pool(draw_session(scenario, 0.0, AA_PAIRS, rng, "aa") for _ in range(AA_SESSIONS))


def simulate_usual(rule: UsualRule, scenario: Scenario, repeats: int, seed: int) -> float:
    """Return the share of comparisons in which a usual rule says ``regressed``; it has no second stage."""
    rng = random.Random(f"{seed} {rule} {scenario}")  # noqa: S311 - a simulation, not a secret
    accused = 0
    for _ in range(repeats):
        session = draw_session(scenario, scenario.effect, scenario.pairs, rng, "usual")
        arms: dict[str, list[float]] = {"A": [], "B": []}
        for arm, value in zip(session.order, session.values, strict=True):
            arms[arm].append(value)
        accused += accuses(rule, arms["A"], arms["B"], MARGIN)
    return accused / repeats


def _shares(counts: Counter[Verdict], repeats: int) -> dict[Verdict, float]:
    return {verdict: count / repeats for verdict, count in counts.items()}
