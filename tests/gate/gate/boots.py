"""Throughput boots as a session would leave them, with times by choice."""

from __future__ import annotations

import random
from collections.abc import Sequence

from msgspec.structs import replace

from ci.gate.ab import Design, Noise
from ci.gate.throughput import Judge
from ci.results.throughput import ArmSeen, BootMeasure, Number, PointMeasure, SessionHead

POINT = "prose-6747"
ARMS = ("token-units", "patched")
DESIGN = Design(0.005, 8)
QUIET = Noise(squares=30 * 2e-6, df=30, sessions=5)
"""A lane whose boots vary by 0.1%: pairs by the square root of two times that."""
JUDGE = Judge("step_ms", higher_is_better=False, design=DESIGN, noise_of=lambda _point: QUIET)
PREFILL = Judge("prefill_ms", higher_is_better=False, design=Design(0.05, 8), noise_of=lambda _point: QUIET)


def head(
    run: str = "run-1", judge: str = "step_ms", pairs: int = 8, arms: tuple[str, str] = ARMS
) -> SessionHead:
    """A session over one prompt."""
    return SessionHead(
        schema=1,
        run=run,
        key="key",
        profile="rtx4090-steps",
        arms=arms,
        points=(POINT,),
        judge=judge,
        pairs=pairs,
        started="2026-01-02T03:04:05Z",
        conditions={"gpu": "NVIDIA GeForce RTX 4090", "driver": "610.43.02"},
    )


def point(step_ms: float, steps: int = 133, text: str = "t", **changed: object) -> PointMeasure:
    """512 tokens in so many steps."""
    decode_s = step_ms * steps / 1e3
    fields: dict[str, object] = {
        "point": POINT,
        "prompt_tokens": 6747,
        "completion_tokens": 512,
        "chunks": steps + 1,
        "steps": Number(float(steps)),
        "drafts": Number(float(steps)),
        "decode_tok_s": Number(512 / decode_s),
        "step_ms": Number(step_ms),
        "tokens_per_step": Number(511 / steps),
        "isolated_tok_s": Number(511 / decode_s),
        "isolated_step_ms": Number(step_ms),
        "prefill_ms": Number(900.0),
        "cached_tokens": Number(6000.0),
        "round_ms": (1.0,),
        "prompt_sha256": "p",
        "text_sha256": text,
    }
    return PointMeasure(**(fields | changed))  # type: ignore[arg-type]


def boot(place: int, step_ms: float, *, arms: tuple[str, str] = ARMS, **changed: object) -> BootMeasure:
    """The boot at a place of the order A B B A."""
    letter = "ABBA"[place % 4]
    fields: dict[str, object] = {
        "arm": arms["AB".index(letter)],
        "letter": letter,
        "place": place,
        "started": "2026-01-02T03:04:05Z",
        "seconds": 90.0,
        "problems": (),
        "seen": ArmSeen(
            series_hash=letter * 8,
            root_first=True,
            flags={},
            processes=2,
            scratch="2 loaded, 4 adopted, 0 late",
        ),
        "pool_tokens": Number(185_373.0),
        "lineage": "cold",
        "modules_loaded": 0,
        "modules_compiled": 2,
        "machine": {"gpu_uuid": "GPU-1", "load_average": 0.4},
        "points": (point(step_ms),),
    }
    return BootMeasure(**(fields | changed))  # type: ignore[arg-type]


def boots(pairs: int, ratio: float = 1.0, noise: float = 0.001, seed: int = 1) -> list[BootMeasure]:
    """So many pairs; arm B's steps take `ratio` times as long; noise is of one boot."""
    draw = random.Random(seed)
    return [
        boot(place, 26.0 * (ratio if "ABBA"[place % 4] == "B" else 1.0) * (1 + draw.gauss(0, noise)))
        for place in range(2 * pairs)
    ]


def changed(all_boots: Sequence[BootMeasure], place: int, new: BootMeasure) -> list[BootMeasure]:
    """The boots with another one at a place."""
    return [new if one.place == place else one for one in all_boots]


def two_points(first: Sequence[BootMeasure], second: Sequence[BootMeasure]) -> list[BootMeasure]:
    """Boots that timed a second prompt as well."""
    return [
        replace(one, points=(one.points[0], replace(other.points[0], point="second")))
        for one, other in zip(first, second, strict=True)
    ]
