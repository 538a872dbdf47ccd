"""The error law: relative error against float64 over the same cached bytes, by context and kind of values.

`python law.py CASE ...` prints {case: relative error with the flag on} for the arm on its import path, as one
JSON line; stock knows no flag.

On the CPU lane the interpreter's products are exact, so the truncation of fp32 operands that a card does is
emulated there, and the cases say so in their names.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from armlib.attention import Batch, Geometry, run_leg
from armlib.builder import make_builder
from armlib.other_arm import run_in_arm
from bench import make_bench, relative_error
from cases import DEVICE, NARROW, REAL, config_for
from features import FEATURES
from inputs import ONCE, SHUNNED, SINK, First, Times, toward_first
from reference import PLAIN
from shapes import heads
from tf32 import tf32_emulated

ON_CPU = DEVICE == "cpu"
GEOMETRY = NARROW if ON_CPU else REAL
EMULATION = "tf32-emulated-" if ON_CPU else ""
VERIFY = (8,)
"""Query tokens of a verify batch of one sequence."""

FLAWED_ARM = "patched"
"""The last arm of our series whose error grows with the context."""
OUTPUT_ROUNDING = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
"""Half a unit of an output of 1: the largest relative error that its rounding alone makes."""


@dataclass(frozen=True)
class LawCase:
    """One batch over one cache."""

    name: str
    history: int
    """Cached tokens before the query's own."""
    q_lens: tuple[int, ...] = VERIFY
    inputs: str = "normal"
    """Of keys and values: a name of `inputs.INPUTS`."""
    feature: str | None = None
    """Of the layer: a name of `features.FEATURES`."""
    first: First | None = None
    """What each sequence's first key is, if it is special."""
    geometry: Geometry = GEOMETRY
    times: Times = ONCE
    infinite: bool = False
    """Whether one element of the first token's first head is, whose row is then left out of the error."""

    @property
    def batch(self) -> Batch:
        """The sequences on top of the history."""
        return Batch(self.q_lens, self.history)


CONTEXTS = (20, 4096) if ON_CPU else (20, 4096, 24571, 24576, 90112)
"""One of them no multiple of a block."""
SHORT_CONTEXT, SHORT_TOKENS = 300, (1, 2, 5)
"""A few keys for each of many segments, and blocks of 16 and 32 query rows beyond their first tile's keys."""
PREFILL = 64 if ON_CPU else 512
INPUTS_CONTEXT = 256 if ON_CPU else 8192
SINK_SEQUENCES = 4
NINE_SEGMENTS = LawCase(f"law-{EMULATION}nine-segments", 139, (1,))
"""9 segments of one tile of 16 keys, one more than the packed kernel's reduction merges in its short way."""
NINTH = 8
"""The last of them, counted from 0."""
BLOCK_48 = replace(GEOMETRY, block_size=48)
"""A block longer than a tile of 3 to 5 query tokens, 32 keys, and no multiple of it."""
BFLOAT16 = replace(GEOMETRY, dtype=torch.bfloat16)
FAR = {
    "queries-large": Times(query=1e5, key=1e-5),
    "queries-tiny": Times(query=1e-7, key=1e7),
    "scores-large": Times(query=1e4, key=1e4),
    "values-large": Times(value=1e4),
    "values-tiny": Times(value=1e-7),
}
"""As bfloat16 has them and half floats do not. Scores stay standard-normal, but for the large ones of 10^8:
fp32 holds no difference of them below 8, and one key has all the weight."""
MIXED = Times(value=1e-4, every_other=1e8)
"""Tiles of a segment and segments of a sequence differ in size by more than half floats do."""
FAINT = Times(value=1e-6)
"""Beside the first value of SHUNNED, which is then 0.1."""
HEADS_CONTEXT = SHORT_CONTEXT if ON_CPU else 24576
HEADS = ((24, 4, 64), (24, 4, 128), (32, 8, 128))
"""Query heads, KV heads, head size."""
SEQUENCES = (1, 8, 3, 8)

LAW_CASES = [
    LawCase(f"law-{EMULATION}prefill-{PREFILL}", history=0, q_lens=(PREFILL,)),
    *(LawCase(f"law-{EMULATION}{SHORT_CONTEXT}-[{n}]", SHORT_CONTEXT, (n,)) for n in SHORT_TOKENS),
    *(
        LawCase(f"law-{EMULATION}{feature.name}", SHORT_CONTEXT, feature=feature.name)
        for feature in FEATURES
        if not feature.plain
    ),
    NINE_SEGMENTS,
    LawCase(f"law-{EMULATION}block-48", SHORT_CONTEXT, (4,), geometry=BLOCK_48),
    LawCase(f"law-{EMULATION}infinite-query", SHORT_CONTEXT, infinite=True),
    *(
        LawCase(f"law-{EMULATION}{name}", SHORT_CONTEXT, geometry=BFLOAT16, times=times)
        for name, times in FAR.items()
    ),
    *(
        LawCase(f"law-{EMULATION}heads-{q}/{kv}x{size}", HEADS_CONTEXT, geometry=heads(q, kv, size))
        for q, kv, size in HEADS
    ),
    # Few keys, for the first one to be in the segment of them all.
    LawCase(f"law-{EMULATION}values-unseen", history=8, geometry=BFLOAT16, times=FAINT, first=SHUNNED),
    LawCase(f"law-{EMULATION}values-mixed", SHORT_CONTEXT, SEQUENCES, geometry=BFLOAT16, times=MIXED),
    LawCase(f"law-{EMULATION}seqs-{len(SEQUENCES)}", HEADS_CONTEXT, SEQUENCES),
    *(LawCase(f"law-{EMULATION}{context}", context) for context in CONTEXTS),
]
"""The last one has the longest context."""
INPUT_CASES = [
    *(
        LawCase(f"inputs-{EMULATION}{inputs}", INPUTS_CONTEXT, inputs=inputs)
        for inputs in ("normal", "heavy-tailed", "outlier-channels", "offset")
    ),
    # Several sequences, for a sink to share its segment with many keys.
    LawCase(f"inputs-{EMULATION}sinks", INPUTS_CONTEXT, q_lens=SINK_SEQUENCES * VERIFY, first=SINK),
]

DECODE_CASE = LawCase(f"decode-{EMULATION}normal", INPUTS_CONTEXT, q_lens=(1,))
"""One token, which takes the split-KV kernel in every arm: a case, and damaged by a control."""


def as_on_a_card() -> AbstractContextManager[None]:
    """Products as a card computes them: emulated on the CPU lane, as they are elsewhere."""
    return tf32_emulated() if ON_CPU else nullcontext()


def law_errors_in(arm: str, cases: Sequence[LawCase]) -> dict[str, float]:
    """Case -> relative error of an earlier arm with the flag on, from a process that imports that arm.

    Raises:
        NotInArmError: the series has no such arm before the one under test.
    """
    found: dict[str, float] = run_in_arm(arm, Path(__file__), *(case.name for case in cases))
    return found


def flawed_arm() -> str:
    """The arm that must break the law: `patched` where it comes before the arm under test, else `stock`.

    A series of one's own may call its last arm `patched`, and it need not have the flaw; stock has it.
    """
    roots = json.loads(os.environ.get("FORKPROOF_ARM_ROOTS", "{}"))
    earlier = FLAWED_ARM in roots and os.environ["FORKPROOF_ARM"] != FLAWED_ARM
    return FLAWED_ARM if earlier else "stock"


def ratio_to_stock(case: LawCase, error: float, stock: float) -> float:
    """How much larger an error is than stock's, or than the output's rounding where stock's is below that.

    Two errors below the rounding of the output say nothing about each other. Where stock has no error that
    is a number, nothing is above it.
    """
    return error / max(stock, OUTPUT_ROUNDING[case.geometry.dtype]) if math.isfinite(stock) else 0.0


def law_errors(case: LawCase, flags: Sequence[bool] = (False, True)) -> list[float]:
    """Relative errors of the arm on the import path, one per value of the flag."""
    geometry, batch = case.geometry, case.batch
    (features,) = [one.arguments(geometry) for one in FEATURES if one.name == case.feature] or [PLAIN]
    bench = make_bench(
        geometry, batch, case.inputs, case.first, case.times, own_write=not ON_CPU, features=features
    )
    builder = make_builder(config_for(geometry), DEVICE)
    # The seed is away from those of keys and values.
    query = bench.query(batch, seed=100 + batch.tokens) * case.times.query
    query = toward_first(query) if case.first else query
    rows = torch.ones(query.shape[:2], dtype=torch.bool)
    if case.infinite:
        query[0, 0, 0] = float("inf")
        rows[0, 0] = False
    with as_on_a_card():
        legs = [run_leg(bench.layer, builder, batch, query, flag) for flag in flags]
    # The interpreter's minimum and maximum keep NaN whatever they are asked; a card's do not.
    assert all(leg.calls[0].output[~rows].isnan().all() for leg in legs), "the infinite row is not NaN"
    return [relative_error(leg, bench, batch, rows) for leg in legs]


def main(names: Sequence[str]) -> None:
    """Print the errors of the cases named."""
    by_name = {case.name: case for case in (*LAW_CASES, *INPUT_CASES, DECODE_CASE)}
    print(json.dumps({name: law_errors(by_name[name], flags=[True])[0] for name in names}))


if __name__ == "__main__":
    main(sys.argv[1:])
