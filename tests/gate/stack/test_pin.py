from __future__ import annotations

import re
from pathlib import Path

from ci.stack.pin import PIN
from ci.stack.repin import locked_versions

LOCKS = Path(__file__).parents[3] / "locks"


def test_the_pin_names_one_release_with_whole_hashes() -> None:
    """The pin is one wheel for x86_64 Linux, known by two full sha256."""
    assert PIN.wheel.startswith(f"vllm-{PIN.vllm}-")
    assert PIN.platform.endswith("x86_64")
    assert PIN.dist_info == f"vllm-{PIN.vllm}.dist-info"
    for digest in (PIN.wheel_sha256, PIN.record_sha256):
        assert re.fullmatch(r"[0-9a-f]{64}", digest)


def test_the_locks_hold_what_the_pin_requires() -> None:
    """A pin that moved is not run on the torch and triton of the one before it."""
    locked = locked_versions(*((LOCKS / name).read_text() for name in ("torch.txt", "stack.txt")))
    assert (locked["torch"], locked["triton"]) == (PIN.torch, PIN.triton)
    assert f"triton=={PIN.triton}" in (LOCKS / "stack.in").read_text().splitlines()


def test_the_key_changes_with_the_wheel() -> None:
    """Two builds of one version do not share a cache folder."""
    assert PIN.key == f"{PIN.vllm}-{PIN.wheel_sha256[:12]}"
