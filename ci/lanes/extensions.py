"""Compiled extensions for a lean arm on a GPU host.

A lean arm has only ``.py`` files.  vLLM's CUDA platform imports two extensions whatever is needed later:
this finder loads those that a bundle brought along (below ``$FORKPROOF_EXTENSIONS``) and gives an empty
module for the others, which the attention kernels do not use.

The module stands alone on purpose: a bundle also installs it as ``sitecustomize``, so that every process of
an engine has it before it imports vLLM.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

VARIABLE = "FORKPROOF_EXTENSIONS"
NAMES = ("vllm._C_stable_libtorch", "vllm.vllm_flash_attn._vllm_fa2_C")
"""What the CUDA platform of the pinned vLLM imports unconditionally."""


class Empty(importlib.abc.Loader):
    """Loads nothing."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """The default module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty."""


class ExtensionFinder(importlib.abc.MetaPathFinder):
    """Finds the extensions that an arm itself does not have."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The arm's own extension, else a bundled one, else an empty module; None for every other name."""
        if fullname not in NAMES:
            return None
        own = importlib.machinery.PathFinder.find_spec(fullname, path)
        if own is not None:
            return own
        *package, leaf = fullname.split(".")
        folder = os.environ.get(VARIABLE)
        for file in sorted(Path(folder, *package).glob(f"{leaf}.*so")) if folder else ():
            return importlib.util.spec_from_file_location(fullname, file)
        return importlib.machinery.ModuleSpec(fullname, Empty())


def install() -> None:
    """Put the finder first, once."""
    if not any(isinstance(finder, ExtensionFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, ExtensionFinder())


if __name__ == "sitecustomize":
    install()
