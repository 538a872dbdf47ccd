"""One GPU for one run: who holds it, who else is on it, and the state that its numbers were measured in.

A reading that the driver does not give is None. Which readings must be there is the profile's to say: a
virtualised driver cannot give all of them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path

from ci.errors import GateError
from ci.results.lock import HeldError, held

MIB = 1 << 20
SMI = "nvidia-smi"
SMI_TIMEOUT_S = 15.0
"""A healthy driver answers within two seconds; one that does not answer at all has lost its GPU."""
STATE_FIELDS = (
    *("uuid", "name", "driver_version", "memory.total", "memory.used", "clocks.sm", "clocks.mem"),
    *("power.limit", "temperature.gpu"),
)
THROTTLE_FIELDS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""The newer and the older name of one reading."""
IDLE_REASON = 0x1
"""The throttle bit that only says that nothing runs."""


class GpuBusyError(GateError):
    """Another run holds the GPU."""


class GpuUnfitError(GateError):
    """The GPU is not in a state in which its numbers mean anything; this is no regression."""


@dataclass(frozen=True)
class GpuState:
    """What the driver says at one moment; None for what it does not say."""

    uuid: str | None
    name: str | None
    driver: str | None
    total_bytes: int | None
    used_bytes: int | None
    sm_mhz: int | None
    memory_mhz: int | None
    power_limit_w: float | None
    temperature_c: int | None
    throttle: int | None
    """Active reasons as a bit set."""
    pids: tuple[int, ...] | None
    """Processes with a compute context, in the driver's numbering."""

    def recorded(self) -> dict[str, bool | int | float | str | None]:
        """The state as flat values for a record's conditions."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        found["pids"] = None if self.pids is None else len(self.pids)
        return {f"gpu_{name}": value for name, value in found.items()}


@dataclass(frozen=True)
class Need:
    """What a run asks of the machine; None asks nothing."""

    free_bytes: int | None = None
    load_average: float | None = None
    power_limit_w: float | None = None
    must_read: tuple[str, ...] = ()
    """Of `memory`, `clocks`, `power_limit`, `temperature`, `throttle`, `processes`."""


READINGS = {
    "memory": ("total_bytes", "used_bytes"),
    "clocks": ("sm_mhz", "memory_mhz"),
    "power_limit": ("power_limit_w",),
    "temperature": ("temperature_c",),
    "throttle": ("throttle",),
    "processes": ("pids",),
}


def unfit_reasons(
    state: GpuState, need: Need, load_average: float | None, own: Sequence[int] = ()
) -> list[str]:
    """Why no run may start now; empty if one may.

    Args:
        state: what the driver says.
        need: what the run asks.
        load_average: the machine's, over one minute; None if it cannot be read.
        own: processes that belong to this run.
    """
    reasons = [
        f"{name} cannot be read"
        for name in need.must_read
        if any(getattr(state, field) is None for field in READINGS[name])
    ]
    foreign = [pid for pid in state.pids or () if pid not in own]
    if foreign:
        reasons.append(f"other processes are on it: {', '.join(map(str, foreign))}")
    if need.free_bytes is not None and state.total_bytes is not None and state.used_bytes is not None:
        free = state.total_bytes - state.used_bytes
        if free < need.free_bytes:
            reasons.append(f"{free // MIB} MiB free, {need.free_bytes // MIB} MiB needed")
    limit, asked = state.power_limit_w, need.power_limit_w
    if limit is not None and asked is not None and abs(limit - asked) > 0.5:
        reasons.append(f"power limit is {limit:g} W, not {asked:g} W")
    if state.throttle is not None and state.throttle & ~IDLE_REASON:
        reasons.append(f"it throttles (reasons 0x{state.throttle:x})")
    if need.load_average is not None:
        if load_average is None:
            reasons.append("the load average cannot be read")
        elif load_average >= need.load_average:
            reasons.append(f"load average is {load_average:.2f}, the limit is {need.load_average:g}")
    return reasons


def require_fit(state: GpuState, need: Need, load_average: float | None) -> None:
    """Raise GpuUnfitError unless a run may start."""
    reasons = unfit_reasons(state, need, load_average)
    if reasons:
        raise GpuUnfitError(
            f"the GPU is not fit for a run: {'; '.join(reasons)}",
            cause="an earlier run or another user; this says nothing about the patches",
            remedy="look at nvidia-smi, end what is yours, and start again",
        )


def first_visible(variables: Mapping[str, str] = os.environ) -> str:
    """The GPU that a process started here takes, as nvidia-smi is asked for it: a number or a UUID."""
    return variables.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip() or "0"


def read_state(gpu: int | str | None = None) -> GpuState:
    """The state of one GPU, by default the first visible one; all None where there is no driver."""
    index = first_visible() if gpu is None else gpu
    values = ask("gpu", STATE_FIELDS, index) or {}
    throttle = next((found for name in THROTTLE_FIELDS if (found := ask("gpu", (name,), index))), {})
    return parse_state(values, next(iter(throttle.values()), None), compute_pids(values.get("uuid"), index))


def parse_state(values: dict[str, str], throttle: str | None, pids: tuple[int, ...] | None) -> GpuState:
    """A state from the driver's own words."""
    return GpuState(
        uuid=known(values.get("uuid")),
        name=known(values.get("name")),
        driver=known(values.get("driver_version")),
        total_bytes=mebibytes(values.get("memory.total")),
        used_bytes=mebibytes(values.get("memory.used")),
        sm_mhz=whole(values.get("clocks.sm")),
        memory_mhz=whole(values.get("clocks.mem")),
        power_limit_w=decimal(values.get("power.limit")),
        temperature_c=whole(values.get("temperature.gpu")),
        throttle=bits(throttle),
        pids=pids,
    )


def compute_pids(uuid: str | None, index: int | str) -> tuple[int, ...] | None:
    """Processes with a compute context on the GPU; None if the driver does not say."""
    text = smi(["--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader,nounits"], index)
    if text is None:
        return None
    pids = []
    for line in text.splitlines():
        owner, _, pid = (part.strip() for part in line.partition(","))
        if not line.strip():
            continue
        if not pid.isdigit():
            return None
        if uuid is None or owner == uuid:
            pids.append(int(pid))
    return tuple(sorted(pids))


def ask(kind: str, names: Sequence[str], index: int | str) -> dict[str, str] | None:
    """The driver's answers by field name; None if it does not answer or does not know a field."""
    text = smi([f"--query-{kind}={','.join(names)}", "--format=csv,noheader,nounits"], index)
    if text is None or not text.strip():
        return None
    words = [word.strip() for word in text.splitlines()[0].split(",")]
    return dict(zip(names, words, strict=True)) if len(words) == len(names) else None


def smi(options: Sequence[str], index: int | str) -> str | None:
    """What nvidia-smi prints; None if it is absent, hangs or fails."""
    if shutil.which(SMI) is None:
        return None
    try:
        done = subprocess.run(
            [SMI, "-i", str(index), *options],
            capture_output=True,
            text=True,
            timeout=SMI_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def known(word: str | None) -> str | None:
    """The word, unless it is one of the driver's ways to say nothing."""
    return None if word is None or not word or word.startswith("[") or word.upper() == "N/A" else word


def decimal(word: str | None) -> float | None:
    """A number."""
    with suppress(ValueError):
        return float(known(word) or "")
    return None


def whole(word: str | None) -> int | None:
    """A whole number."""
    number = decimal(word)
    return None if number is None else round(number)


def mebibytes(word: str | None) -> int | None:
    """A number of MiB, in bytes."""
    number = whole(word)
    return None if number is None else number * MIB


def bits(word: str | None) -> int | None:
    """A bit set such as 0x0000000000000004."""
    text = known(word)
    return int(text, 16) if text is not None and re.fullmatch(r"0x[0-9a-fA-F]+", text) else None


def load_average() -> float | None:
    """The machine's load over one minute."""
    with suppress(OSError):
        return os.getloadavg()[0]
    return None


@contextmanager
def lease(uuid: str, folder: Path, what: str, wait_s: float = 0.0) -> Iterator[None]:
    """Hold one GPU alone; a killed holder leaves no lease behind.

    Args:
        uuid: the GPU, as the driver names it.
        folder: where leases are kept, the same for every run on this machine.
        what: what the GPU is held for, shown to whoever finds it busy.
        wait_s: how long to wait for another holder.

    Raises:
        GpuBusyError: another run holds it, and says for what.
    """
    path = folder / f"gpu-{re.sub(r'[^A-Za-z0-9-]', '_', uuid)}.lease"
    try:
        with held(path, what, wait_s):
            yield
    except HeldError as error:
        raise GpuBusyError(
            f"the GPU is held by {error.holder}",
            cause=f"the lease {path} is locked",
            remedy="wait until that run has ended, or give a longer wait",
        ) from error
