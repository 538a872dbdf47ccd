"""How often a session of several prompts is right: simulated boots, run and judged as real sessions are."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ci.gate.ab import Design, pool
from ci.gate.calibration import AA_PAIRS, AA_SESSIONS, MARGIN, PAIRS, Scenario, draw_session
from ci.gate.throughput import Judge, awaits_confirmation, enough, records_of, results_of
from ci.gate.verdict import Verdict, overall
from ci.results.records import AbSession
from ci.results.throughput import (
    SCHEMA_VERSION,
    ArmSeen,
    BootMeasure,
    KeptSession,
    Number,
    PointMeasure,
    SessionHead,
)

PROMPTS = (1, 2, 6)
"""The longest profile, the captured path, times six."""
PROMPT_EFFECTS = (0.0, -MARGIN, -0.01)
NOISE = 0.003
_METRIC = "decode_tok_s"
_ARMS = ("a", "b")
_UNKNOWN = Number(None, "not simulated")


@dataclass(frozen=True)
class PromptScenario:
    """One row of the table; the effect is the same at every prompt, the noise is each one's own."""

    prompts: int
    aa_sessions: int
    effect: float


@dataclass(frozen=True)
class PromptShares:
    """What became of the simulated sessions."""

    verdicts: dict[Verdict, float]
    """Of all prompts together, the confirmation included; shares of 1."""
    mean_boots: float
    """Timed boots of both sessions."""


def prompt_scenarios() -> Iterator[PromptScenario]:
    """Return every row of the table."""
    for prompts, sessions, effect in itertools.product(PROMPTS, (AA_SESSIONS, 0), PROMPT_EFFECTS):
        yield PromptScenario(prompts, sessions, effect)


def fewer(repeats: int) -> int:
    """Return the number of sessions per row for so many comparisons of one prompt; a session takes longer."""
    return max(1, repeats // 2)


def simulate_prompts(row: PromptScenario, repeats: int, seed: int) -> PromptShares:
    """Run ``repeats`` sessions, each with A/A sessions of its own; confirm those that are held."""
    rng = random.Random(f"{seed} {row}")  # noqa: S311 - a simulation, not a secret
    found: Counter[Verdict] = Counter()
    boots = 0
    for _ in range(repeats):
        judge = _judge(row, rng)
        earlier, (head, kept) = None, _run_session(row, judge, rng, "first")
        boots += len(kept)
        if awaits_confirmation(head, kept, [judge], 0.0):
            earlier = (head, kept)
            head, kept = _run_session(row, judge, rng, "second", earlier)
            boots += len(kept)
        results = results_of(records_of("", head, kept, earlier), "", [judge])
        verdict, _ = overall((one.verdict for one in results), control_failed=False)
        found[verdict] += 1
    return PromptShares({verdict: count / repeats for verdict, count in found.items()}, boots / repeats)


def _judge(row: PromptScenario, rng: random.Random) -> Judge:
    quiet = Scenario(0.0, NOISE, AA_PAIRS)
    noises = {
        point: pool(draw_session(quiet, 0.0, AA_PAIRS, rng, "aa") for _ in range(row.aa_sessions))
        for point in _points(row)
    }
    return Judge(
        _METRIC, higher_is_better=True, design=Design(MARGIN, max(PAIRS)), noise_of=noises.__getitem__
    )


def _run_session(
    row: PromptScenario, judge: Judge, rng: random.Random, run: str, earlier: KeptSession | None = None
) -> KeptSession:
    """Boots until no further one is needed."""
    head, pairs = _head(row, run), judge.design.max_pairs
    drawn = [
        draw_session(Scenario(row.effect, NOISE, pairs), row.effect, pairs, rng, run) for _ in _points(row)
    ]
    boots = [_boot(place, row, drawn) for place in range(2 * pairs)]
    for size in judge.design.sizes:
        kept = boots[: 2 * size]
        if enough(head, kept, [judge], 0.0, earlier):
            break
    return head, kept


def _points(row: PromptScenario) -> tuple[str, ...]:
    return tuple(f"prompt-{number}" for number in range(row.prompts))


def _head(row: PromptScenario, run: str) -> SessionHead:
    return SessionHead(
        schema=SCHEMA_VERSION,
        run=run,
        key="",
        profile="simulated",
        arms=_ARMS,
        points=_points(row),
        judge=_METRIC,
        pairs=max(PAIRS),
        started="",
        conditions={},
    )


def _boot(place: int, row: PromptScenario, drawn: Sequence[AbSession]) -> BootMeasure:
    """A boot that knows nothing but its speeds."""
    letter = drawn[0].order[place]
    return BootMeasure(
        arm=_ARMS["AB".index(letter)],
        letter="A" if letter == "A" else "B",
        place=place,
        started="",
        seconds=0.0,
        problems=(),
        seen=ArmSeen(series_hash=letter, root_first=True, flags={}, processes=1, scratch=""),
        pool_tokens=Number(1.0),
        lineage="cold",
        modules_loaded=0,
        modules_compiled=1,
        machine={},
        points=tuple(
            _point(name, session.values[place]) for name, session in zip(_points(row), drawn, strict=True)
        ),
    )


def _point(name: str, speed: float) -> PointMeasure:
    return PointMeasure(
        point=name,
        prompt_tokens=1,
        completion_tokens=1,
        chunks=1,
        steps=_UNKNOWN,
        drafts=_UNKNOWN,
        decode_tok_s=Number(speed),
        step_ms=_UNKNOWN,
        tokens_per_step=_UNKNOWN,
        isolated_tok_s=_UNKNOWN,
        isolated_step_ms=_UNKNOWN,
        prefill_ms=_UNKNOWN,
        cached_tokens=_UNKNOWN,
        round_ms=(),
        prompt_sha256="",
        text_sha256="",
    )
