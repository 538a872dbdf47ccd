from __future__ import annotations

import re

from ci.stack.pin import PIN


def test_the_pin_names_one_release_with_whole_hashes() -> None:
    """The pin is vllm 0.27.1 for x86_64 Linux with torch 2.13.0 and triton 3.7.1, by full sha256."""
    assert (PIN.vllm, PIN.torch, PIN.triton) == ("0.27.1", "2.13.0", "3.7.1")
    assert PIN.platform == "manylinux_2_28_x86_64"
    assert PIN.dist_info == "vllm-0.27.1.dist-info"
    for digest in (PIN.wheel_sha256, PIN.record_sha256):
        assert re.fullmatch(r"[0-9a-f]{64}", digest)


def test_the_key_changes_with_the_wheel() -> None:
    """Two builds of one version do not share a cache folder."""
    assert PIN.key == f"0.27.1-{PIN.wheel_sha256[:12]}"
