"""Production names of the arm under test, wherever a series defines them."""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

SURFACE = (
    "vllm.v1.attention.backends.triton_attn",
    "vllm.v1.attention.ops.int4_per_token_head",
    "vllm.v1.attention.ops.triton_unified_attention",
)
"""The modules a series changes; also where its interface names are looked up."""


class NotInArmError(LookupError):
    """The arm under test lacks a name that the suite exercises."""


def arm_root() -> Path:
    """Folder of the arm under test, as the runner exported it."""
    root = os.environ.get("FORKPROOF_ARM_ROOT")
    if not root:
        raise NotInArmError("FORKPROOF_ARM_ROOT is not set; start suites with: python -m ci run SUITE")
    return Path(root).resolve()


def other_arm_root(name: str) -> Path:
    """Folder of another arm of the same series, one with fewer patches.

    Raises:
        NotInArmError: the series has no such arm before the one under test.
    """
    roots = json.loads(os.environ.get("FORKPROOF_ARM_ROOTS", "{}"))
    if name not in roots:
        raise NotInArmError(
            f"the series has no arm {name} up to {os.environ.get('FORKPROOF_ARM', '?')}: {sorted(roots)}"
        )
    return Path(roots[name])


def in_arm(name: str) -> dict[str, str]:
    """The environment of a child process that imports from another arm of the series."""
    root = other_arm_root(name)
    path = os.environ["PYTHONPATH"].split(os.pathsep)
    path = [str(root) if Path(part).resolve() == arm_root() else part for part in path]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(path),
        "FORKPROOF_ARM": name,
        "FORKPROOF_ARM_ROOT": str(root),
    }


@functools.cache
def surface_modules() -> list[ModuleType]:
    """The surface modules, checked to come from the arm and from nowhere else."""
    modules = [importlib.import_module(name) for name in SURFACE]
    for module in modules:
        origin = Path(str(module.__file__)).resolve()
        if not origin.is_relative_to(arm_root()):
            raise NotInArmError(
                f"{module.__name__} was imported from {origin}, which is not in the arm {arm_root()}"
            )
    return modules


def owner_of(name: str) -> ModuleType:
    """The surface module that defines `name`.

    Raises:
        NotInArmError: none does, so the arm cannot be judged by this suite.
    """
    for module in surface_modules():
        if getattr(getattr(module, name, None), "__module__", module.__name__) == module.__name__ and hasattr(
            module, name
        ):
            return module
    raise NotInArmError(
        f"arm {os.environ.get('FORKPROOF_ARM', '?')} defines no {name} in {', '.join(SURFACE)}; "
        "run this suite on an arm whose series provides it (see patches/README.md)"
    )


def packed_launcher() -> Any:
    """The launcher of the arm's packed kernel; None in an arm without one."""
    return vars(owner_of("_launch_packed_attn")).get("launch_packed_verify")


def production(name: str) -> Any:
    """The arm's own object called `name`; raises NotInArmError like `owner_of`."""
    return getattr(owner_of(name), name)


@contextmanager
def replaced(name: str, new: Callable[..., Any]) -> Iterator[None]:
    """Replace a production object under every name that vLLM's modules hold it by."""
    original = production(name)
    holders = [
        module
        for key, module in list(sys.modules.items())
        if key.startswith("vllm.") and getattr(module, name, None) is original
    ]
    for module in holders:
        setattr(module, name, new)
    try:
        yield
    finally:
        for module in holders:
            setattr(module, name, original)
