"""A machine that plays boots: stand-ins for GPU, arms and engine, which prints the log of a real boot."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci.commands import boots
from ci.engine.boot import Launch
from tests.gate.commands.played_machine import ENGINE, QUIET

PATCHED = (ENGINE / "logs" / "v0.27-patched.log").read_text(encoding="utf-8")


def reference_log() -> str:
    """The same boot without the pool: nothing at load, every builder allocates, more budget and tokens."""
    lines = [line for line in PATCHED.splitlines(keepends=True) if "allocated at model load" not in line]
    text = "".join(lines).replace("adopted by the metadata builder", "allocated at metadata builder")
    for new, old in (("4.76 GiB", "4.54 GiB"), ("181,139", "172,998"), ("15.93 GiB", "16.14 GiB")):
        text = text.replace(old, new)
    return text


def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patched: str = PATCHED) -> list[str]:
    """Put the stand-ins in their places; gives the names of the boots that will be made.

    Args:
        tmp_path: everything is below it.
        monkeypatch: takes the stand-ins away again.
        patched: what the subject's engine prints.
    """
    names: list[str] = []
    logs = {"token-units": reference_log(), "patched": patched}

    def launch(profile: Any, seqs: int, root: Path, folder: Path, variables: Any, **more: Any) -> Launch:
        names.append(folder.name)
        lines = tmp_path / f"{root.name}.log"
        lines.write_text(logs[root.name])
        traits = [f"breaks-{more['broken']}"] if more.get("broken") else []
        command = (sys.executable, str(ENGINE / "stand_in.py"), "{port}", str(lines), *traits)
        return Launch(f"{root.name}-{seqs}", command, dict(os.environ), folder, 20.0)

    def arm(name: str) -> SimpleNamespace:
        return SimpleNamespace(name=name, root=Path(name), manifest=SimpleNamespace(series_hash=name))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORKPROOF_OUT", str(tmp_path / "results"))
    monkeypatch.setenv("FORKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(boots, "detect_lane", lambda: "rtx4090")
    monkeypatch.setattr(boots, "read_conditions", lambda lane: {"environment": "wsl2", "lane": lane})
    monkeypatch.setattr(boots, "read_state", lambda: QUIET)
    monkeypatch.setattr(boots, "abandoned", list)  # other tests have some of their own
    monkeypatch.setattr(boots, "load_average", lambda: 0.0)
    monkeypatch.setattr(boots, "arms_by_name", lambda *_: {name: arm(name) for name in logs})
    monkeypatch.setattr(boots, "serve_launch", launch)
    return names
