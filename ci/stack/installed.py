"""An installed vLLM tree as an arm: judged as it lies there, whoever patched it.

``VLLM_ROOT`` names it, as in the field's own numerical check: the folder of the package or the one around it.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from ci.stack.arms import Arm
from ci.stack.errors import StackError
from ci.stack.manifest import MANIFEST_SCHEMA, ArmManifest, FilePair

ROOT_VARIABLE = "VLLM_ROOT"
NAME = "installed"
SURFACE = (
    "vllm/envs.py",
    "vllm/v1/attention/backends/triton_attn.py",
    "vllm/v1/attention/ops/int4_per_token_head.py",
    "vllm/v1/attention/ops/triton_unified_attention.py",
)
"""The files whose content identifies such a tree."""


class InstalledTreeError(StackError):
    """``VLLM_ROOT`` does not name a vLLM tree."""


def installed_arm() -> Arm | None:
    """The tree that ``VLLM_ROOT`` names, or None without it.

    Raises:
        InstalledTreeError: the folder is not a vLLM package and does not hold one.
    """
    named = os.environ.get(ROOT_VARIABLE)
    if not named:
        return None
    given = Path(named).expanduser().resolve()
    root = given.parent if given.name == "vllm" and (given / "__init__.py").is_file() else given
    lacking = [path for path in SURFACE if not (root / path).is_file()]
    if lacking:
        raise InstalledTreeError(
            f"{ROOT_VARIABLE}={named}: no {lacking[0]} there",
            remedy="name the folder that holds the package vllm, or unset it to use the series",
        )
    files = {
        path: FilePair(stock=None, patched=hashlib.sha256((root / path).read_bytes()).hexdigest())
        for path in SURFACE
    }
    listing = "".join(f"{path} {pair.patched}\n" for path, pair in files.items())
    manifest = ArmManifest(
        schema=MANIFEST_SCHEMA,
        arm=NAME,
        vllm=_version(root),
        wheel_sha256="unknown",
        flavour="installed",
        series_hash=hashlib.sha256(listing.encode()).hexdigest(),
        patches=[],
        files=files,
        offsets=[],
    )
    return Arm(NAME, root, manifest)


def _version(root: Path) -> str:
    names = [re.fullmatch(r"vllm-(.+)\.dist-info", path.name) for path in root.glob("vllm-*.dist-info")]
    found = [match[1] for match in names if match]
    return found[0] if len(found) == 1 else "unknown"
