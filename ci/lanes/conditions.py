"""Which lane this machine is, and the conditions its numbers hold under.

Everything that decides is a pure function of text; reading the text stands
apart.  A condition that could not be read is None and never a made-up zero:
the comparison then says which one it could not match.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ci.errors import GateError
from ci.results.records import Scalar

CPU_LANE = "cpu"
KNOWN_LANES = {"rtx 3090": "rtx3090", "rtx 4090": "rtx4090", "h200": "h200"}
"""Lanes with a name of their own, by the GPU's name without its maker; a `Ti` or `NVL` is another card."""

QUERY = ["nvidia-smi", "--query-gpu=name,driver_version,power.limit", "--format=csv,noheader,nounits"]
QUERY_TIMEOUT_S = 15.0
"""A healthy driver answers within two seconds, a waking one within ten."""


class GpuQueryError(GateError):
    """nvidia-smi is there and gives no usable answer."""


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi names it."""

    name: str
    driver: str | None
    power_limit_w: float | None


def parse_gpus(text: str) -> list[Gpu]:
    """The GPUs of nvidia-smi's CSV answer (name, driver, power limit in watts), in its order.

    Raises:
        GpuQueryError: a line that does not have the three fields asked for.
    """
    gpus = []
    for line in text.splitlines():
        if not line.strip():
            continue
        fields = [field.strip() for field in line.rsplit(",", 2)]
        if len(fields) != 3 or not fields[0]:
            raise GpuQueryError(f"nvidia-smi: unexpected line {line!r}", remedy=" ".join(QUERY))
        name, driver, power = fields
        gpus.append(Gpu(name, _known(driver), _watts(power)))
    return gpus


def _known(field: str) -> str | None:
    return None if not field or field.startswith("[") or field.upper() == "N/A" else field


def _watts(field: str) -> float | None:
    known = _known(field)
    try:
        return None if known is None else float(known)
    except ValueError:
        return None


def lane_of(gpu_name: str | None) -> str:
    """The lane of a GPU; a card without a known lane gets one from its own name, whose results are new."""
    if gpu_name is None:
        return CPU_LANE
    short = re.sub(r"\b(nvidia|geforce)\b", " ", gpu_name.lower())
    short = " ".join(short.split())
    return KNOWN_LANES.get(short) or re.sub(r"[^a-z0-9]+", "-", short).strip("-") or "unnamed-gpu"


def environment_of(kernel: str, env: Mapping[str, str], container_marks: bool) -> str:
    """``wsl2``, ``container`` or ``native``, from the kernel's release, the environment and marker files."""
    if "microsoft" in kernel.lower() or "WSL_DISTRO_NAME" in env:
        return "wsl2"
    if container_marks or env.get("container"):
        return "container"
    return "native"


def read_gpus() -> list[Gpu]:
    """The GPUs that a process started here could use; empty without a driver or with all of them hidden.

    Raises:
        GpuQueryError: the driver does not answer in time or answers something else than was asked.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "" or shutil.which(QUERY[0]) is None:
        return []
    try:
        done = subprocess.run(QUERY, capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise GpuQueryError(
            f"nvidia-smi gave no answer in {QUERY_TIMEOUT_S:.0f} s",
            cause="a hung driver or a GPU that fell off the bus",
            remedy="look at `nvidia-smi` and `dmesg`, or run with --lane cpu",
        ) from error
    # Tools without a driver (a container image, a removed card) end non-zero: no GPU can be used then.
    return parse_gpus(done.stdout) if done.returncode == 0 else []


def detect_lane() -> str:
    """The lane of this machine: ``cpu`` unless a GPU can be used."""
    gpus = read_gpus()
    return lane_of(gpus[0].name if gpus else None)


def read_conditions(lane: str, *, vllm: str | None = None) -> dict[str, Scalar]:
    """What must match before two numbers of this machine may be compared.

    Args:
        lane: the lane the suite runs on; on ``cpu`` no GPU is asked, since none is used.
        vllm: version of the arm's vLLM, which only the arm knows.
    """
    gpus = [] if lane == CPU_LANE else read_gpus()
    gpu = gpus[0] if gpus else Gpu("", None, None)
    marks = any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv"))
    return {
        "lane": lane,
        "environment": environment_of(platform.release(), os.environ, marks),
        "gpu": gpu.name or None,
        "driver": gpu.driver,
        "power_limit_w": gpu.power_limit_w,
        "torch": installed_version("torch"),
        "triton": installed_version("triton"),
        "vllm": vllm,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "platform": f"{sys.platform}-{platform.machine()}",
    }


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution, local part included; None if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
