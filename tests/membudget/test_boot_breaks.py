"""The breaks of a real boot, put around an accounted one: each does what its name says, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from armlib.production import in_arm
from boot import SERVING
from model import Setting

TIMEOUT_S = 300


def broken_boot(name: str) -> dict[str, str | list[int]]:
    """What an accounted boot with this break came to; in a process of its own, since breaks stay."""
    done = subprocess.run(
        [sys.executable, __file__, name],
        env=in_arm(os.environ["FORKPROOF_ARM"]),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, str | list[int]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", ["sequence-units", "declared-8"])
def test_break(name: str) -> None:
    """Rows in sequence units end in the arm's own assert; a declaration of 8 boots and says 8."""
    found = broken_boot(name)
    if name == "sequence-units":
        assert found["error"] == "AssertionError"
        assert "do not carry the declared capacity of 64 query tokens" in found["text"]
    else:
        assert found == {"error": "", "declared": [8, 8, 8, 8]}


def main() -> None:
    """Break this process as an engine is broken, before anything of vLLM is constructed, and boot."""
    import torch
    from boot import boot

    from ci.engine.breaks import BREAKS

    original = torch.empty
    BREAKS[sys.argv[1]]()
    try:
        account = boot(Setting(4))
        declared = [line.plan["declared"] for line in account.lines if line.phase == SERVING and line.plan]
        found: dict[str, object] = {"error": "", "declared": declared}
    except Exception as error:
        found = {"error": type(error).__name__, "text": str(error)}
    # A device context and compiled code know torch's functions by identity: a break may not replace them.
    assert torch.empty is original
    print(json.dumps(found))


if __name__ == "__main__":
    main()
