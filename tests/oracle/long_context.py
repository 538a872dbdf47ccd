"""Error of both kernels against float64 over long histories, for the arm on the import path.

Run as a script it prints {"context/tokens/flag": relative error} as one JSON line.
"""

from __future__ import annotations

import json

from armlib.attention import Batch, run_leg
from armlib.builder import make_builder
from bench import make_bench, relative_error
from cases import DEVICE, REAL, config_for

CONTEXTS = (8192, 24576, 90112)
QUERY_TOKENS = (1, 2, 4, 8, 16)


def relative_errors() -> dict[str, float]:
    """Relative errors of the arm on the import path, all query lengths of a context over one cache."""
    found = {}
    for context in CONTEXTS:
        bench = make_bench(REAL, Batch((max(QUERY_TOKENS),), context))
        builder = make_builder(config_for(REAL), DEVICE)
        for tokens in QUERY_TOKENS:
            batch = Batch((tokens,), context)
            query = bench.query(batch, seed=100 + tokens)  # away from the seeds of keys and values
            for flag in (0, 1):
                leg = run_leg(bench.layer, builder, batch, query, bool(flag))
                found[f"{context}/{tokens}/{flag}"] = relative_error(leg, bench, batch)
    return found


if __name__ == "__main__":
    print(json.dumps(relative_errors()))
