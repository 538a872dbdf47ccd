"""A machine that plays sessions: stand-ins for GPU, arms and engine, and a lane with A/A sessions."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from ci.commands import review, throughput, throughput_session
from ci.engine import server, timed_boot
from ci.engine.boot import Launch
from ci.engine.profile import Measure, Point, load_profile
from ci.lanes.gpu import parse_state
from ci.results.aa import write_aa
from ci.results.records import AaSession, AbSession, Acceptance
from tests.gate.engine.played import LOG, dispatch

ENGINE = Path(__file__).parents[1] / "engine"
ROOT = Path(__file__).parents[3]
QUIET = parse_state({"uuid": "GPU-1", "memory.total": "24576", "memory.used": "300"}, None, ())
CONDITIONS = {
    "gpu": "NVIDIA H200",
    "driver": "580",
    "power_limit_w": 700.0,
    "torch": "2.13.0",
    "triton": "3.7.1",
    "vllm": "0.27.1",
}
NOISE = (0.0004, -0.0003, 0.0002, -0.0001, 0.0003, -0.0004, 0.0001, -0.0002)
"""Of the boots in their order, as fractions."""
PROFILE = replace(
    load_profile("any-gpu-verify"),
    measure=Measure(
        arms=("@previous", "@subject"),
        points=[Point("prose", 400)],
        generate=31,
        judge="isolated_step_ms",
        soak_s=0.0,
    ),
)
ARMS = ("token-units", "patched")


class Machine:
    """What the played boots are like."""

    def __init__(self) -> None:
        self.slower = dict.fromkeys(ARMS, 1.0)
        self.noise = 1.0
        self.booted: list[str] = []
        self.plan: dict[str, Any] = {}
        self.conditions: dict[str, Any] = dict(CONDITIONS)
        self.interrupt_at: str | None = None
        self.builds = 0
        self.census = dispatch(8, "3D")
        """What the instrument prints."""

    def names_up_to(self, name: str | None, _series: object) -> list[str]:
        """The arms up to the one that is asked for."""
        return list(ARMS) if name is None else [name]

    def built(self, arms: dict[str, Any]) -> dict[str, Any]:
        """The arms, counted as built."""
        self.builds += 1
        return arms

    def step_s(self, arm: str, name: str) -> float:
        """Of a boot: the arm's, with the noise of its place."""
        place = int(name[:3]) if name[:3].isdigit() else 0
        return 0.004 * self.slower[arm] * (1 + self.noise * NOISE[place % len(NOISE)])


def manifest_of(root: Path) -> Any:
    """An arm's, as far as a session reads it."""
    return SimpleNamespace(series_hash=root.name, vllm="0.27.1")


def made_arms(folder: Path) -> list[SimpleNamespace]:
    """Both arms, each with a folder of its own."""
    roots = [folder / name for name in ARMS]
    for root in roots:
        (root / "vllm").mkdir(parents=True)
    return [SimpleNamespace(name=root.name, root=root, manifest=manifest_of(root)) for root in roots]


def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Put the stand-ins in their places, everything else under a folder."""
    one = Machine()

    def launch(profile: Any, seqs: int, root: Path, folder: Path, variables: Any, **more: Any) -> Launch:
        one.booted.append(f"{folder.name} {root.name}")
        if one.interrupt_at == folder.name:
            raise KeyboardInterrupt
        plan = tmp_path / "plan.json"
        log = tmp_path / "boot.log"
        log.write_text(LOG + (one.census if folder.name.startswith("census") else ""))
        timing = {"prefill_s": 0.02, "step_s": one.step_s(root.name, folder.name), "tokens_per_step": 3}
        plan.write_text(json.dumps({"log": str(log), **timing, **one.plan}))
        env = {**os.environ, "PYTHONPATH": str(root), "VLLM_CACHE_ROOT": str(folder / "c"), **profile.env}
        command = (sys.executable, str(ENGINE / "player.py"), "{port}", str(plan))
        return Launch(profile.name, command, env, folder, 20.0, more.get("descriptions"))

    arms = made_arms(tmp_path)
    baselines = tmp_path / "baselines"
    baselines.mkdir()
    for name in ("plan.toml", "policy.toml"):
        shutil.copy(ROOT / "baselines" / name, baselines / name)
    write_aa(baselines / "rtx4090" / "aa.jsonl", aa_sessions())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORKPROOF_OUT", str(tmp_path / "results"))
    monkeypatch.setenv("FORKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(review, "default_baselines", lambda: baselines)
    monkeypatch.setattr(throughput, "load_profile", lambda _name: PROFILE)
    monkeypatch.setattr(throughput, "detect_lane", lambda: "rtx4090")
    monkeypatch.setattr(
        throughput_session, "read_conditions", lambda lane, **_: {"lane": lane, **one.conditions}
    )
    for module in (throughput, throughput_session):
        monkeypatch.setattr(module, "read_state", lambda *_: QUIET)
    monkeypatch.setattr(throughput_session, "abandoned", list)  # other tests have some of their own
    monkeypatch.setattr(throughput_session, "read_gpus", list)
    monkeypatch.setattr(throughput_session, "load_average", lambda: 0.3)
    monkeypatch.setattr(throughput, "names_up_to", one.names_up_to)
    monkeypatch.setattr(throughput, "arms_by_name", lambda *_: one.built({arm.name: arm for arm in arms}))
    monkeypatch.setattr(throughput_session, "read_manifest", manifest_of)
    monkeypatch.setattr(timed_boot, "serve_launch", launch)
    monkeypatch.setattr(server, "POLL_S", 0.02)
    return one


def aa_sessions() -> list[AaSession]:
    """Five sessions of an arm with itself, whose boots vary by 0.05%."""
    conditions = {**CONDITIONS, "lineage": "fresh", "engine": "in-process"}
    values = tuple(4.0 * (1 + 0.0005 * (-1) ** (place // 3)) for place in range(16))
    return [
        AaSession(
            schema=1,
            suite="throughput",
            case="verify-prose-400",
            metric="isolated_step_ms",
            unit="ms",
            session=AbSession(f"run-{number}", ("patched", "patched"), "ABBA" * 4, values),
            conditions=conditions,
            accepted=Acceptance("2026-01-02", "somebody", "noise of the lane"),
        )
        for number in range(5)
    ]
