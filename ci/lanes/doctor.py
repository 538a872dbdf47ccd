"""Is this machine fit for its lane?  Pure: facts come in, findings with their remedies come out."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from ci.lanes.conditions import lane_of
from ci.lanes.gpu import IDLE_REASON, GpuState
from ci.lanes.matrix import Lane

GIB = 1 << 30
DISK_OK_BYTES = 60 * GIB
"""torch with CUDA, the whole wheel and its arms take about 15 GiB, a 27B model in four bits 20 GiB."""
DISK_LOW_BYTES = 25 * GIB
"""Below this the environment and the arms still fit, a model does not."""
CPU_DISK_BYTES = 10 * GIB
"""The CPU lane: torch, its dependencies and lean arms."""
FREE_SHARE = 0.95
"""Share of the card that has to be free before a run; a display takes less than the rest."""
WSL2_FREE_SHARE = 0.8
"""Windows keeps its desktop on the card, and nothing in WSL can take it away."""
MAX_LOAD = 2.0
OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 14)


class State(enum.Enum):
    """How one check ended."""

    OK = "ok"
    WARN = "warn"
    """A run can start; a reader of its numbers should know."""
    FAIL = "fail"
    """No number of this machine would mean anything, or no run can start."""


@dataclass(frozen=True)
class Finding:
    """One line of the doctor."""

    check: str
    state: State
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class TorchFacts:
    """What torch of the stack's environment says."""

    version: str
    cuda: str | None
    """CUDA that it was built with; None for a CPU build."""
    devices: int
    architectures: tuple[str, ...]
    error: str | None = None


@dataclass(frozen=True)
class ModelFolder:
    """A model that a variable names."""

    variable: str
    path: str | None
    missing: tuple[str, ...] = ()
    """Files that its own index lists and the folder has not."""


@dataclass(frozen=True)
class Folder:
    """A folder that runs write to."""

    name: str
    path: str
    writable: bool
    free_bytes: int | None


@dataclass(frozen=True)
class Facts:
    """What was read; None where it could not be."""

    python: tuple[int, int]
    git: bool
    environment: str
    root_user: bool
    sudo: bool | None
    load_average: float | None
    gpu: GpuState
    cuda_driver: str | None
    """Highest CUDA version that the driver serves."""
    ecc_errors: int | None
    """Uncorrected since boot; None where the card has no ECC."""
    xids: tuple[str, ...] | None
    """The kernel's lines about GPU faults in the last day."""
    torch: TorchFacts | None
    """None if the stack's environment is not built."""
    compiler: bool
    """Whether there is a C compiler, which Triton calls at run time."""
    headers: bool
    """Whether the stack's Python has its headers, which that compiler includes."""
    cache: Folder
    folders: tuple[Folder, ...] = ()
    models: tuple[ModelFolder, ...] = ()
    runner: str | None = None
    """The runner that executes this, if one does."""
    labels: tuple[frozenset[str], ...] | None = None
    """Labels of each runner of the repository that is online; None if nobody could be asked."""


def examine(facts: Facts, lane: Lane) -> list[Finding]:
    """Every check of the lane, in the order in which a new machine is set up."""
    findings = [_python(facts), _git(facts), _user(facts), _environment(facts, lane), *_folders(facts, lane)]
    findings.append(_load(facts))
    if lane.gpu is None:
        return [*findings, _torch(facts, lane)]
    findings += [_driver(facts, lane), _torch(facts, lane), _compiler(facts)]
    if facts.gpu.name is not None:
        findings += [_cuda(facts), _memory(facts), _processes(facts), _clocks(facts), _power(facts)]
        findings += [_ecc(facts), _xid(facts)]
    findings.append(_labels(facts, lane))
    return [*findings, *(_model(model) for model in facts.models)]


def _finding(check: str, good: bool, text: str, remedy: str, otherwise: State = State.FAIL) -> Finding:
    return Finding(check, State.OK, text) if good else Finding(check, otherwise, text, remedy)


def _python(facts: Facts) -> Finding:
    here = ".".join(map(str, facts.python))
    good = OLDEST_PYTHON <= facts.python <= NEWEST_PYTHON
    return _finding("python", good, here, "install Python 3.11 to 3.14 and nox with it")


def _git(facts: Facts) -> Finding:
    return _finding("git", facts.git, "found" if facts.git else "not found", "sudo apt install git")


def _user(facts: Facts) -> Finding:
    remedy = "run the runner as a user of its own without sudo: docs/runners.md, step 2"
    if facts.root_user:
        return Finding("user", State.WARN, "runs as root: a job could change the machine", remedy)
    if facts.sudo:
        return Finding("user", State.WARN, "may use sudo without a password", remedy)
    return Finding("user", State.OK, "an ordinary user")


def _environment(facts: Facts, lane: Lane) -> Finding:
    good = facts.environment in lane.environments
    text = (
        facts.environment if good else f"{facts.environment}, the lane is for {', '.join(lane.environments)}"
    )
    remedy = "compare only with runs of the same kind; add it to the lane in ci/lanes/matrix.toml on purpose"
    return _finding("environment", good, text, remedy, State.WARN)


def _folders(facts: Facts, lane: Lane) -> list[Finding]:
    found = []
    for folder in (facts.cache, *facts.folders):
        text = f"{folder.path}" if folder.writable else f"{folder.path}: cannot be written"
        found.append(_finding(folder.name, folder.writable, text, f"sudo chown $USER {folder.path}"))
    return [*found, _disk(facts.cache, lane)]


def _disk(cache: Folder, lane: Lane) -> Finding:
    free = cache.free_bytes
    if free is None:
        return Finding("disk", State.WARN, "free space cannot be read", f"df -h {cache.path}")
    wanted, least = (DISK_OK_BYTES, DISK_LOW_BYTES) if lane.gpu else (CPU_DISK_BYTES, CPU_DISK_BYTES // 2)
    text = f"{free / GIB:.0f} GiB free, {wanted // GIB} GiB wanted"
    remedy = "make room, or set FORKPROOF_CACHE to a larger disk"
    return _finding("disk", free >= wanted, text, remedy, State.WARN if free >= least else State.FAIL)


def _load(facts: Facts) -> Finding:
    load = facts.load_average
    if load is None:
        return Finding("load", State.WARN, "the load average cannot be read", "cat /proc/loadavg")
    return _finding(
        "load", load < MAX_LOAD, f"{load:.2f}", "see what runs with top; times need quiet", State.WARN
    )


def _driver(facts: Facts, lane: Lane) -> Finding:
    gpu, remedy = facts.gpu, "sudo ubuntu-drivers install, reboot, then nvidia-smi: docs/runners.md, step 1"
    if gpu.name is None:
        return Finding(
            "driver", State.FAIL, "nvidia-smi gives no GPU, so nothing more can be said about it", remedy
        )
    if lane_of(gpu.name) != lane.name:
        text = f"{gpu.name} is lane {lane_of(gpu.name)}, not {lane.name}"
        return Finding("driver", State.FAIL, text, "give the runner the label of its own card")
    return Finding("driver", State.OK, f"{gpu.name}, driver {gpu.driver or 'unread'}")


def _cuda(facts: Facts) -> Finding:
    remedy = "install a newer driver: sudo ubuntu-drivers install"
    if facts.cuda_driver is None:
        return Finding("cuda", State.FAIL, "the driver does not say which CUDA it serves", remedy)
    wanted = facts.torch.cuda if facts.torch else None
    if wanted is None:
        return Finding("cuda", State.OK, f"the driver serves {facts.cuda_driver}")
    good = _major(facts.cuda_driver) >= _major(wanted)
    return _finding(
        "cuda", good, f"the driver serves {facts.cuda_driver}, torch was built with {wanted}", remedy
    )


def _major(version: str) -> int:
    head = version.partition(".")[0]
    return int(head) if head.isdigit() else 0


def _torch(facts: Facts, lane: Lane) -> Finding:
    torch = facts.torch
    if torch is None:
        return Finding("torch", State.WARN, "the stack's environment is not built", "nox -s build")
    if torch.error is not None:
        return Finding(
            "torch", State.FAIL, f"cannot be imported: {torch.error}", "rm -r .nox/build; nox -s build"
        )
    if lane.gpu is None:
        return Finding("torch", State.OK, torch.version)
    if torch.devices == 0:
        text = f"torch {torch.version} sees no GPU"
        remedy = "a CPU build: unset PIP_EXTRA_INDEX_URL and PIP_FIND_LINKS, rm -r .nox/build, nox -s build"
        other = "nvidia-smi works and torch does not: reboot after a driver update"
        return Finding("torch", State.FAIL, text, remedy if torch.cuda is None else other)
    if lane.architecture and torch.architectures and lane.architecture not in torch.architectures:
        major = lane.architecture[:-1]
        kin = [name for name in torch.architectures if name.startswith(major) and name <= lane.architecture]
        if not kin:
            text = f"torch {torch.version} has no code for {lane.architecture}"
            return Finding("torch", State.FAIL, text, "take another build of torch")
    return Finding("torch", State.OK, f"{torch.version}, CUDA {torch.cuda}, {torch.devices} GPU seen")


def _compiler(facts: Facts) -> Finding:
    lacking = [
        name
        for name, there in (("a C compiler", facts.compiler), ("Python's headers", facts.headers))
        if not there
    ]
    text = f"Triton lacks {' and '.join(lacking)}, so no kernel can start" if lacking else "found"
    return _finding("compiler", not lacking, text, "sudo apt install gcc python3-dev")


def _memory(facts: Facts) -> Finding:
    total, used = facts.gpu.total_bytes, facts.gpu.used_bytes
    if total is None or used is None:
        return Finding("gpu memory", State.FAIL, "cannot be read", "nvidia-smi")
    free = total - used
    text = f"{free / GIB:.1f} of {total / GIB:.1f} GiB free"
    remedy = "nox -s sweep; move the display to another card"
    desktop = facts.environment == "wsl2" and free >= WSL2_FREE_SHARE * total
    otherwise = State.WARN if desktop else State.FAIL
    return _finding("gpu memory", free >= FREE_SHARE * total, text, remedy, otherwise)


def _processes(facts: Facts) -> Finding:
    pids = facts.gpu.pids
    if pids is None:
        text = "cannot be read (WSL2 and virtual drivers do not say)"
        return Finding("gpu processes", State.WARN, text, "nvidia-smi on the host")
    text = "none" if not pids else f"processes {', '.join(map(str, pids))}"
    return _finding("gpu processes", not pids, text, "nox -s sweep, or end them if they are yours")


def _clocks(facts: Facts) -> Finding:
    throttle, clock = facts.gpu.throttle, facts.gpu.sm_mhz
    if throttle is None:
        return Finding("clocks", State.WARN, "throttling cannot be read", "nvidia-smi -q -d PERFORMANCE")
    good = not throttle & ~IDLE_REASON
    text = f"{clock} MHz, " + ("not throttled" if good else f"throttled (reasons 0x{throttle:x})")
    return _finding("clocks", good, text, "let it cool; look at nvidia-smi -q -d PERFORMANCE", State.WARN)


def _power(facts: Facts) -> Finding:
    limit = facts.gpu.power_limit_w
    remedy = "keep one limit: sudo nvidia-smi -pm 1 && sudo nvidia-smi -pl WATTS, docs/runners.md, step 1"
    return _finding(
        "power limit", limit is not None, f"{limit:g} W" if limit else "cannot be read", remedy, State.WARN
    )


def _ecc(facts: Facts) -> Finding:
    errors = facts.ecc_errors
    text = "the card has none" if errors is None else f"{errors} uncorrected errors since boot"
    return _finding("ecc", not errors, text, "reboot; if they come back, the card is faulty")


def _xid(facts: Facts) -> Finding:
    if facts.xids is None:
        remedy = "sudo usermod -aG systemd-journal $USER, then log in again"
        return Finding("xid", State.WARN, "the kernel's log cannot be read", remedy)
    text = "none in the last day" if not facts.xids else f"{len(facts.xids)}, last: {facts.xids[-1][:120]}"
    return _finding("xid", not facts.xids, text, "reboot; look the number up in NVIDIA's list of Xid errors")


def _labels(facts: Facts, lane: Lane) -> Finding:
    wanted = " ".join(lane.runs_on)
    if facts.runner is not None:
        return Finding("runner", State.OK, f"{facts.runner} was given this job for: {wanted}")
    if facts.labels is None:
        return Finding("runner", State.WARN, "GitHub cannot be asked for its runners", "gh auth login")
    good = any(set(lane.runs_on) <= labels for labels in facts.labels)
    text = f"a runner with {wanted} is online" if good else f"no runner with {wanted} is online"
    return _finding("runner", good, text, "register it: docs/runners.md, step 4", State.WARN)


def _model(model: ModelFolder) -> Finding:
    check, remedy = f"model {model.variable}", "download it again: docs/runners.md, step 5"
    if model.path is None:
        text = "not set: suites that start an engine with a real model cannot run"
        return Finding(check, State.WARN, text, f"export {model.variable}=FOLDER")
    text = f"{model.path}: {', '.join(model.missing[:3])} missing" if model.missing else model.path
    return _finding(check, not model.missing, text, remedy)


def worst(findings: Sequence[Finding]) -> State:
    """The worst state among the findings."""
    states = {finding.state for finding in findings}
    return next((state for state in (State.FAIL, State.WARN) if state in states), State.OK)
