"""A plugin for pytest: the throughput suite on a machine that plays, in the folder that PLAYED names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.engine import profile
from ci.lanes import gpu
from ci.stack import manifest
from tests.gate.commands.played_machine import PROFILE, QUIET, manifest_of, play


def pytest_configure(config: pytest.Config) -> None:
    """Put the stand-ins in their places before a worker imports the suite."""
    if not hasattr(config, "workerinput"):
        return
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    out = os.environ["FORKPROOF_OUT"]
    play(Path(os.environ["PLAYED"]), patch).plan = {"fault": os.environ["PLAYED_FAULT"]}
    patch.setenv("FORKPROOF_OUT", out)
    patch.setattr(profile, "load_profile", lambda _name: PROFILE)
    patch.setattr(gpu, "read_state", lambda *_: QUIET)
    patch.setattr(manifest, "read_manifest", manifest_of)
