"""Running a lean arm on a machine with a GPU.

A lean arm has no compiled extensions. vLLM's CUDA platform imports two of them whatever is needed later; the
attention backend and its Triton kernels use neither, so empty modules stand in for them.
"""

from __future__ import annotations

import sys
import types

from armlib.production import arm_root

EXTENSIONS = ("vllm._C_stable_libtorch", "vllm.vllm_flash_attn._vllm_fa2_C")


def stand_in_for_extensions() -> None:
    """Register empty modules for the extensions that this arm does not have."""
    for name in EXTENSIONS:
        *package, leaf = name.split(".")
        if not list(arm_root().joinpath(*package).glob(f"{leaf}.*so")):
            sys.modules.setdefault(name, types.ModuleType(name))
