"""An installed vLLM tree as an arm: judged as it lies there, whoever patched it.

``VLLM_ROOT`` names it, as in the field's own numerical check: the folder of the package or the one around it.
"""

from __future__ import annotations

import base64
import csv
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
"""The files whose content identifies such a tree, with those under `ATTENTION` that are not the wheel's."""
ATTENTION = "vllm/v1/attention"
"""Where a patch may bring a kernel in a file of its own."""


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
        for path in sorted({*SURFACE, *_own_files(root)})
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


def _own_files(root: Path) -> list[str]:
    """The attention files that the tree's own RECORD lacks or lists with another hash."""
    records = list(root.glob("vllm-*.dist-info/RECORD"))
    if len(records) != 1:
        return []
    rows = csv.reader(records[0].read_text(encoding="utf-8", errors="replace").splitlines())
    listed = {row[0]: row[1] for row in rows if len(row) > 1}
    own = []
    for file in (root / ATTENTION).rglob("*.py"):
        path = file.relative_to(root).as_posix()
        digest = base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest()).decode().rstrip("=")
        if listed.get(path) != f"sha256={digest}":
            own.append(path)
    return own


def _version(root: Path) -> str:
    names = [re.fullmatch(r"vllm-(.+)\.dist-info", path.name) for path in root.glob("vllm-*.dist-info")]
    found = [match[1] for match in names if match]
    return found[0] if len(found) == 1 else "unknown"
