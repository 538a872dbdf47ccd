"""Set up the stage: a copy of the checkout with one small suite, and stand-ins for actions and programs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from ci.errors import GateError
from ci.rehearsal.world import LANES, REPOSITORY, SUITE
from ci.results.jsonl import read_baseline, write_baseline

ROOT = Path(__file__).resolve().parents[2]
SETUP = """\
name: set up
description: stand-in, everything is installed
inputs:
  python:
    description: ignored
    default: ""
runs:
  using: composite
  steps:
    - run: echo set up
      shell: bash
"""
CHECKOUT = """\
name: checkout
description: stand-in, the interpreter copies the stage
runs:
  using: composite
  steps:
    - run: echo check out
      shell: bash
"""
UPLOAD = """\
name: upload
description: stand-in, into the rehearsal's folder
inputs:
  name: {{description: name, required: true}}
  path: {{description: path, required: true}}
  if-no-files-found: {{description: what to do without files, default: warn}}
runs:
  using: composite
  steps:
    - run: '"{python}" -m ci.rehearsal.stand_in_upload'
      shell: bash
      env:
        UPLOAD_NAME: ${{{{ inputs.name }}}}
        UPLOAD_PATH: ${{{{ inputs.path }}}}
        UPLOAD_IF_NONE: ${{{{ inputs.if-no-files-found }}}}
"""


class StageError(GateError):
    """The stage cannot be set up."""


def copy_checkout(to: Path) -> None:
    """Copy what git knows, as it lies here, and make it a repository of its own."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, target = ROOT / name, to / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    change(to / ".github/workflows/gpu.yml", r"\n      queue: max\n", "\n")  # newer than the interpreter
    # The stage is the default branch; the interpreter copies it only for a checkout without a ref.
    change(to / ".github/workflows/report.yml", r"\n          ref: [^\n]*default_branch[^\n]*\n", "\n")
    (to / ".github/actions/setup/action.yml").write_text(SETUP, encoding="utf-8")
    keep_one_suite(to)
    origin = ["remote", "add", "origin", f"https://github.com/{REPOSITORY}"]
    save = [*IDENTITY, "commit", "-q", "-m", "stage"]
    for words in (["init", "-q", "-b", "main"], origin, ["add", "-A"], save):
        subprocess.run(["git", *words], cwd=to, check=True, capture_output=True)


IDENTITY = ("-c", "user.name=rehearsal", "-c", "user.email=rehearsal@localhost")


def keep_one_suite(to: Path) -> None:
    """Let every lane run the same small suite, with baselines of its own."""
    plan = to / "baselines" / "plan.toml"
    head, *suites = re.split(r"(?m)^\[\[suite\]\]\n", plan.read_text(encoding="utf-8"))
    (kept,) = [text for text in suites if f'name = "{SUITE}"' in text]
    lanes = ", ".join(f'"{lane}"' for lane in LANES)
    kept = re.sub(r"(?m)^lanes = \[.*\]$", f"lanes = [{lanes}]", kept, count=1)
    plan.write_text(f"{head}[[suite]]\n{kept}", encoding="utf-8")
    matrix = to / "ci/lanes/matrix.toml"
    first, *lane_tables = re.split(r"(?m)^(?=\[\[lane\]\]$)", matrix.read_text(encoding="utf-8"))
    one_job = ["[[lane.job]]".join(text.split("[[lane.job]]")[:2]) for text in lane_tables]
    matrix.write_text(first + "".join(one_job), encoding="utf-8")
    change(matrix, r"(?m)^suites = \[.*\]$", f'suites = ["{SUITE}"]')
    accepted = read_baseline(to / "baselines" / "cpu" / f"{SUITE}.jsonl")
    for file in (to / "baselines").glob("*/*.jsonl"):
        file.unlink()
    for lane in LANES:
        conditions = {**accepted.head.conditions, "lane": lane}
        lane_head = msgspec.structs.replace(accepted.head, lane=lane, conditions=conditions)
        write_baseline(to / "baselines" / lane / f"{SUITE}.jsonl", lane_head, accepted.records)


def change(file: Path, pattern: str, new: str) -> None:
    """Replace every match in a file.

    Raises:
        StageError: there is none, so that the stage would not be what it seems.
    """
    text, count = re.subn(pattern, new, file.read_text(encoding="utf-8"))
    if not count:
        raise StageError(
            f"{file.name}: {pattern!r} is not there", remedy="bring ci/rehearsal/stage.py up to date"
        )
    file.write_text(text, encoding="utf-8")


def write_programs(folder: Path) -> None:
    """``nox`` and ``gh`` that stand before the real ones on PATH."""
    folder.mkdir(parents=True)
    for name in ("nox", "gh"):
        script = folder / name
        script.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m ci.rehearsal.stand_in_{name} "$@"\n', encoding="utf-8"
        )
        script.chmod(0o755)


def write_actions(folder: Path) -> dict[str, Path]:
    """Stand-ins by the action's name."""
    texts = {"actions/checkout": CHECKOUT, "actions/upload-artifact": UPLOAD.format(python=sys.executable)}
    made = {}
    for name, text in texts.items():
        made[name] = folder / name.replace("/", "-")
        made[name].mkdir(parents=True)
        (made[name] / "action.yml").write_text(text, encoding="utf-8")
    return made


def pins(stage: Path) -> set[str]:
    """``NAME@COMMIT`` of every action that the workflows use."""
    files = (stage / ".github").rglob("*.yml")
    return {
        pin
        for file in files
        for pin in re.findall(r"uses: ([a-z0-9-]+/[a-z0-9-]+@[0-9a-f]{40})", file.read_text())
    }
