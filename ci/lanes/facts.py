"""Read what the doctor judges; whatever cannot be read is None and never made up."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci.lanes.conditions import environment_of
from ci.lanes.doctor import Facts, Folder, ModelFolder, TorchFacts
from ci.lanes.gpu import SMI, ask, load_average, read_state, whole

TIMEOUT_S = 20.0
TORCH_TIMEOUT_S = 120.0
"""A first import of torch reads a few GB from a cold disk."""
MAX_ERROR_CHARS = 200
MODEL_VARIABLES = ("FORKPROOF_MODEL", "FORKPROOF_DRAFTER")
ECC_FIELD = "ecc.errors.uncorrected.volatile.total"
PROBE = """\
import json, torch
cuda = torch.cuda
print(json.dumps([torch.__version__, torch.version.cuda, cuda.device_count(), cuda.get_arch_list()]))
"""

HEADERS_PROBE = """\
import sysconfig
scheme = sysconfig.get_default_scheme()
print(sysconfig.get_paths("posix_prefix" if scheme == "posix_local" else scheme)["include"])
"""
"""Triton's own question."""


def read_facts(gpu: bool, cache: Path, out: Path, python: Path, env: Mapping[str, str] = os.environ) -> Facts:
    """Everything about this machine.

    Args:
        gpu: whether the lane has a GPU; without one, nothing about it is asked.
        cache: the gate's cache folder.
        out: where runs are written.
        python: the interpreter of the stack's environment.
        env: the environment variables.
    """
    marks = any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv"))
    return Facts(
        python=sys.version_info[:2],
        git=shutil.which("git") is not None,
        environment=environment_of(platform.release(), env, marks),
        root_user=os.geteuid() == 0,
        sudo=may_sudo(),
        load_average=load_average(),
        gpu=read_state(),
        cuda_driver=parse_cuda(said([SMI]) or "") if gpu else None,
        ecc_errors=whole((ask("gpu", (ECC_FIELD,), 0) or {}).get(ECC_FIELD)) if gpu else None,
        xids=read_xids() if gpu else None,
        torch=read_torch(python),
        compiler=has_compiler(env),
        headers=has_headers(python),
        cache=folder("cache", cache),
        folders=(folder("runs", out),),
        models=tuple(read_model(name, env.get(name)) for name in MODEL_VARIABLES) if gpu else (),
        runner=env.get("RUNNER_NAME") if env.get("GITHUB_ACTIONS") == "true" else None,
        labels=read_labels() if gpu else None,
    )


def said(command: Sequence[str], timeout_s: float = TIMEOUT_S) -> str | None:
    """What a command prints; None if it is absent, hangs or fails."""
    try:
        done = subprocess.run(
            list(command), capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def may_sudo() -> bool | None:
    """Whether this user can use sudo without a password; None without sudo."""
    return None if shutil.which("sudo") is None else said(["sudo", "-n", "true"]) is not None


def parse_cuda(text: str) -> str | None:
    """The CUDA version of nvidia-smi's heading."""
    match = re.search(r"CUDA(?: UMD)? Version: *([0-9]+\.[0-9]+)", text)
    return match[1] if match else None


def read_xids() -> tuple[str, ...] | None:
    """The kernel's GPU faults of the last day; None if this user may not read its log."""
    text = said(
        ["journalctl", "--dmesg", "--quiet", "--since", "-24h", "--output", "short-iso", "--no-pager"]
    )
    if not text:
        return None
    return tuple(line for line in text.splitlines() if "NVRM: Xid" in line)


def read_torch(python: Path) -> TorchFacts | None:
    """What torch of the stack's environment says; None if there is no such environment."""
    if not python.exists():
        return None
    try:
        done = subprocess.run(
            [str(python), "-c", PROBE], capture_output=True, text=True, errors="replace",
            timeout=TORCH_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return TorchFacts("", None, 0, (), error=str(error)[:MAX_ERROR_CHARS])
    try:
        version, cuda, devices, architectures = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, TypeError, IndexError):
        last = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        return TorchFacts("", None, 0, (), error=last[:MAX_ERROR_CHARS])
    return TorchFacts(version, cuda, devices, tuple(architectures))


def has_compiler(env: Mapping[str, str]) -> bool:
    """Whether Triton finds a C compiler: the one that CC names, else gcc or clang."""
    path = env.get("PATH")
    if "CC" in env:
        return shutil.which(env["CC"], path=path) is not None
    return any(shutil.which(name, path=path) for name in ("gcc", "clang"))


def has_headers(python: Path) -> bool:
    """Whether an interpreter has its headers; without the stack's environment, the one that runs this."""
    asked = python if python.exists() else Path(sys.executable)
    where = said([str(asked), "-c", HEADERS_PROBE])
    return where is not None and (Path(where.strip()) / "Python.h").is_file()


def folder(name: str, path: Path) -> Folder:
    """A folder, or the nearest one above it that exists."""
    there = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
    try:
        free = shutil.disk_usage(there).free
    except OSError:
        free = None
    return Folder(name, str(path), os.access(there, os.W_OK | os.X_OK), free)


def read_model(variable: str, value: str | None) -> ModelFolder:
    """The files that a model folder lists and has not."""
    if not value:
        return ModelFolder(variable, None)
    root = Path(value)
    wanted = {"config.json"}
    index = root / "model.safetensors.index.json"
    if index.is_file():
        try:
            wanted |= set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return ModelFolder(variable, value, (index.name,))
    elif not any(root.glob("*.safetensors")):
        wanted.add("model.safetensors")
    missing = sorted(
        name for name in wanted if not (root / name).is_file() or not (root / name).stat().st_size
    )
    return ModelFolder(variable, value, tuple(missing))


def read_labels() -> tuple[frozenset[str], ...] | None:
    """Labels of each runner of this repository that is online; None if GitHub cannot be asked."""
    if shutil.which("gh") is None:
        return None
    text = said(["gh", "api", "repos/{owner}/{repo}/actions/runners?per_page=100"])
    return None if text is None else parse_runners(text)


def parse_runners(text: str) -> tuple[frozenset[str], ...] | None:
    """The same, out of GitHub's answer."""
    try:
        runners = json.loads(text)["runners"]
        online = [runner for runner in runners if runner["status"] == "online"]
        # GitHub compares labels without regard to case.
        return tuple(frozenset(label["name"].lower() for label in runner["labels"]) for runner in online)
    except (ValueError, KeyError, TypeError):
        return None
