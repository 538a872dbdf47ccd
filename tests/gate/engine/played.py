"""Boots of a session that a player of recorded timings stands in for."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci.engine import timed_boot
from ci.engine.boot import Launch
from ci.engine.identity import parse_arm
from ci.engine.profile import Measure, Point, Profile, load_profile
from ci.engine.timed_boot import Machine, Setup
from ci.lanes.gpu import parse_state
from ci.results.throughput import BootMeasure

HERE = Path(__file__).parent
LOG = (HERE / "logs" / "v0.27-patched.log").read_text(encoding="utf-8")
QUIET = parse_state({"uuid": "GPU-1", "memory.total": "24576", "memory.used": "300"}, None, ())
FLAG = "VLLM_INT4_MQ_3D"
INFO = "(EngineCore pid=7) INFO 01-02 03:04:06"
COMPILES = f"{INFO} [backends.py:394] Compiling a graph for compile range (1, 2048) takes 4.2 s\n"
LOADS = f"{INFO} [decorators.py:312] Directly load AOT compilation from path /c/a\n"


def dispatch(tokens: int, path: str) -> str:
    """What the arm's instrument prints of one call."""
    shape = f"tokens={tokens} num_seqs=1 max_seqlen_q={tokens}"
    return f"{INFO} [x.py:1] int4 mq3d dispatch: {shape} path={path} reasons=x\n"


def profile(**changed: Any) -> Profile:
    """The 4090's, with a short prompt."""
    measure = Measure(
        arms=(f"patched+{FLAG}=0", f"patched+{FLAG}=1"),
        points=[Point("prose", 400)],
        generate=31,
        judge="isolated_step_ms",
    )
    base = replace(load_profile("any-gpu-captured"), measure=replace(measure, **changed.pop("measure", {})))
    return replace(base, **changed)


class Bench:
    """A session of played boots."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.plan: dict[str, Any] = {"prefill_s": 0.02, "step_s": 0.004, "tokens_per_step": 3}
        self.log = LOG
        self.env: dict[str, str] = {}
        self.roots = {"patched": folder / "arms" / "patched"}
        (self.roots["patched"] / "vllm").mkdir(parents=True)
        self.hash = "abc"
        monkeypatch.setattr(timed_boot, "serve_launch", self.launch)

    def launch(
        self, made: Profile, seqs: int, root: Path, folder: Path, variables: Any, **more: Any
    ) -> Launch:
        """The player instead of the engine."""
        (self.folder / "lines.log").write_text(self.log)
        plan = self.folder / "plan.json"
        plan.write_text(json.dumps({"log": str(self.folder / "lines.log"), **self.plan}))
        env = {
            **os.environ,
            **variables,
            "PYTHONPATH": str(root),
            "VLLM_CACHE_ROOT": str(folder / "caches"),
            **made.env,
            **self.env,
            # As serve_launch does; the boots of a session share it.
            "PYTHONPYCACHEPREFIX": str(more["bytecode"]),
        }
        command = (sys.executable, str(HERE / "player.py"), "{port}", str(plan))
        return Launch(f"{made.name}-{seqs}", command, env, folder, 20.0, more.get("descriptions"))

    def setup(self, one: Profile | None = None, **changed: Any) -> Setup:
        """What the boots have in common."""
        one = one or profile()
        assert one.measure is not None
        fields: dict[str, Any] = {
            "profile": one,
            "measure": one.measure,
            "arms": (parse_arm(one.measure.arms[0]), parse_arm(one.measure.arms[1])),
            "roots": self.roots,
            "hashes": {"patched": "abc"},
            "read_hash": lambda _root: self.hash,
            "folder": self.folder / "session",
            "variables": {},
            "machine": Machine(lambda: QUIET, list, lambda: 0.3),
            "in_process": True,
        }
        return Setup(**(fields | changed))

    def boot(self, place: int = 0, **changed: Any) -> BootMeasure:
        """The boot at a place."""
        return timed_boot.timed_boot(self.setup(**changed), place, "ABBA"[place % 4])
