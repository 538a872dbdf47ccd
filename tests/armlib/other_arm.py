"""A script of a suite run in another arm of the series, in the same run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from armlib.production import in_arm


def run_in_arm(arm: str, script: Path, *arguments: str) -> Any:
    """What a script prints as its last line, one JSON value, from a process that imports another arm.

    Raises:
        NotInArmError: the series has no such arm before the one under test.
    """
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        env=in_arm(arm),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
