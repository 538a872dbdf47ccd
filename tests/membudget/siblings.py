"""Accounted boots of an earlier arm of the series, in a process that imports that arm."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence

from accounting import BootAccount, from_json, to_json
from armlib.production import in_arm
from model import Setting

TIMEOUT_S = 300


def sibling_boots(name: str, settings: Sequence[Setting]) -> list[BootAccount]:
    """Boot the arm called `name` once per setting."""
    asked = json.dumps([dataclasses.asdict(setting) for setting in settings])
    done = subprocess.run(
        [sys.executable, __file__, asked],
        env=in_arm(name),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [from_json(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main() -> None:
    """Boot this process's arm with the settings on the command line; one JSON line each."""
    from boot import boot

    for setting in json.loads(sys.argv[1]):
        print(to_json(boot(Setting(**setting))))


if __name__ == "__main__":
    main()
