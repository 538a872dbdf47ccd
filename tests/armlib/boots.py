"""What the suites that boot engines share: their lane, the arms of the run, its GPU, and one refusal."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from ci.errors import IncomparableError
from ci.lanes import gpu
from ci.stack import manifest
from ci.stack.arms import Arm
from ci.stack.cache import cache_root

LANE = os.environ.get("FORKPROOF_LANE", "cpu")
IN_PROCESS = os.environ.get("FORKPROOF_IN_PROCESS") == "1"
"""Set where vLLM's server cannot run; numbers of memory are then exact."""


def arms() -> dict[str, Arm]:
    """The arms of the run, by name, as the runner exported them."""
    roots = {name: Path(root) for name, root in json.loads(os.environ["FORKPROOF_ARM_ROOTS"]).items()}
    return {name: Arm(name, root, manifest.read_manifest(root)) for name, root in roots.items()}


def gpu_of(suite: str) -> AbstractContextManager[object]:
    """This machine's GPU, held for a suite; another run that wants it is refused."""
    return gpu.lease(gpu.read_state().uuid or "unnamed", cache_root() / "leases", f"suite {suite}")


def refuse(problems: Sequence[str], remedy: str) -> None:
    """Leave no verdict on what must not be compared.

    Raises:
        IncomparableError: there are problems; the suite is `invalid`, not `regressed`.
    """
    if problems:
        raise IncomparableError("\n".join(problems), remedy=remedy)
