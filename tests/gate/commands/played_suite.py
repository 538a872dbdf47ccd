"""A plugin for pytest: a suite of a GPU on a machine that plays, in the folder that PLAYED names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ci.engine import profile
from ci.lanes import gpu
from ci.stack import manifest
from tests.gate.commands import played_boots, played_machine, played_model


def pytest_configure(config: pytest.Config) -> None:
    """Put the stand-ins in their places before a worker imports the suite."""
    if not hasattr(config, "workerinput"):
        return
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    folder, out = Path(os.environ["PLAYED"]), os.environ["FORKPROOF_OUT"]
    plan = json.loads(os.environ["PLAYED_PLAN"])
    match os.environ["PLAYED_SUITE"]:
        case "throughput":
            played_machine.play(folder, patch).plan = plan
            patch.setattr(profile, "load_profile", lambda _name: played_machine.PROFILE)
        case "quality":
            served = played_model.played_profile()
            plans = {arm: plan | plan.get(arm, {}) for arm in played_machine.ARMS}
            played_model.play(folder, patch).plans |= plans
            patch.setattr(profile, "load_profile", lambda _name: served)
        case _:
            folder.mkdir()
            played_boots.play(folder, patch, **plan)
    patch.setenv("FORKPROOF_OUT", out)
    patch.setattr(gpu, "read_state", lambda *_: played_machine.QUIET)
    patch.setattr(manifest, "read_manifest", played_machine.manifest_of)
