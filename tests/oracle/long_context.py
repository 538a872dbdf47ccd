"""Error of both kernels against float64 over long histories, for the arm on the import path.

Run as a script it prints {"context/tokens/flag": relative error} as one JSON line.
"""

from __future__ import annotations

import json

import torch
from armlib.attention import Batch, run_leg
from armlib.builder import make_builder
from bench import make_bench
from cases import DEVICE, REAL, config_for
from reference import attention

CONTEXTS = (8192, 24576, 90112)
QUERY_TOKENS = (1, 2, 4, 8, 16)


def relative_errors() -> dict[str, float]:
    """Norm of the launcher's error over the norm of a float64 reference on the same cached bytes."""
    found = {}
    for context in CONTEXTS:
        bench = make_bench(REAL, Batch((max(QUERY_TOKENS),), context))
        builder = make_builder(config_for(REAL), DEVICE)
        for tokens in QUERY_TOKENS:
            batch = Batch((tokens,), context)
            query = bench.query(batch, seed=100 + tokens)  # away from the seeds of keys and values
            for flag in (0, 1):
                leg = run_leg(bench.layer, builder, batch, query, bool(flag))
                call = leg.calls[0]
                scale = REAL.softmax_scale / REAL.head_size
                exact = attention(call.query, bench.layer, batch, scale, torch.float64)
                error = (call.output.double() - exact).norm() / exact.norm()
                found[f"{context}/{tokens}/{flag}"] = float(error)
    return found


if __name__ == "__main__":
    print(json.dumps(relative_errors()))
