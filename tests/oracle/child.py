"""Runs that need a process of their own: breach state is sticky, and a pool may outlive its builder.

`python child.py NAME` prints its result as one JSON line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from armlib.attention import Batch, run_leg
from armlib.breach import breach_state, declared_capacity
from armlib.builder import make_builder
from bench import errors_of, make_bench
from cases import DEVICE, HISTORY, MAX_NUM_SEQS, NARROW, REAL, config_for, short_cases
from verdict import path_of

BATCHES = ((16, 16, 16), (16, 16, 16, 16))


def breach() -> list[dict[str, Any]]:
    """Two over-capacity batches on the flag-1 leg."""
    bench = make_bench(REAL)
    builder = make_builder(config_for(REAL), DEVICE)
    calls = []
    for q_lens in BATCHES:
        batch = Batch(q_lens, HISTORY)
        query = bench.query(batch, seed=7)
        leg = run_leg(bench.narrowed(batch), builder, batch, query, flag=True)
        calls.append(
            {
                "launches": len(leg.calls),
                "path": path_of(leg),
                "reasons": leg.reasons[0],
                "finite": bool(leg.output.isfinite().all()),
                "launcher_ref": errors_of(leg, bench, batch, query).launcher,
                "state": breach_state(),
            }
        )
    return calls


def sequence_units() -> dict[str, str]:
    """Reason of every short case when capacity and allocation are both in sequence units."""
    with declared_capacity(MAX_NUM_SEQS):
        bench = make_bench(NARROW)
        builder = make_builder(config_for(NARROW), DEVICE)
    reasons = {}
    for case in short_cases():
        query = bench.query(case.batch, seed=11)
        leg = run_leg(bench.narrowed(case.batch), builder, case.batch, query, flag=True)
        reasons[case.name] = leg.reasons[0]
    return reasons


def run_child(name: str) -> Any:
    """The result of one of the functions above, from a fresh process of this Python."""
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    print(json.dumps({"breach": breach, "sequence-units": sequence_units}[sys.argv[1]]()))
