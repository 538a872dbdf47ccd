"""One suite against one arm: its run folder, its environment, its pytest.

The suite runs in a process of its own that sees the arm first on its import
path and none of the caller's vLLM or Triton settings: a flag that somebody
exported last week must not decide a verdict.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ci.errors import GateError, UsageError
from ci.lanes.conditions import CPU_LANE, read_conditions
from ci.lanes.process import run_logged
from ci.results.files import write_atomic
from ci.results.lock import HeldError, held
from ci.results.recorder import HEAD_FILE, RUN_DIR_VARIABLE
from ci.results.records import SCHEMA_VERSION, RunHead, Subject

ROOT = Path(__file__).parents[2]
SUITES_DIR = ROOT / "tests"
NOT_SUITES = {"gate"}
"""Folders of tests/ that hold the gate's own tests."""
OUT_VARIABLE = "FORKPROOF_OUT"
"""Where runs, boots and reports go; ``out/`` if it is not set."""
SITE_VARIABLE = "FORKPROOF_SITE"
"""A folder of installed wheels that a bundle brings along."""
NEEDED_MODULES = ("torch", "triton", "numpy", "pytest", "xdist", "msgspec")
"""What every suite needs beside the arm; the arm's other imports fail by their own names."""
SCRUBBED = (
    "VLLM_",
    "TRITON_",
    "TORCHINDUCTOR_",
    "TORCH_",
    "PYTEST_",
    "PYTHON",
    "FORKPROOF_ARM",
    "FORKPROOF_RUN",
)
"""Prefixes of variables that would change what a suite measures."""


class StackEnvironmentError(GateError):
    """This Python cannot run a suite."""


class RunFolderError(GateError):
    """The run folder cannot be made anew, or another run is writing it."""


@dataclass(frozen=True)
class SuiteJob:
    """One suite, about to run."""

    suite: str
    lane: str
    run_dir: Path
    arm_root: Path
    subject: Subject
    vllm: str
    arm_roots: Mapping[str, Path] = field(default_factory=dict)
    """The arm and every arm with fewer patches of the series, by name."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    workers: int = 1
    pytest_args: Sequence[str] = ()


def suites() -> list[str]:
    """The suites that exist, by name."""
    found = (path.name for path in SUITES_DIR.iterdir() if path.is_dir() and any(path.rglob("test_*.py")))
    return sorted(name for name in found if name not in NOT_SUITES)


def check_suite(name: str) -> None:
    """Raise UsageError unless there is a suite of that name."""
    if name not in suites():
        raise UsageError(f"there is no suite {name!r}", remedy=f"one of: {', '.join(suites()) or '(none)'}")


def check_environment(present: Callable[[str], bool] | None = None) -> None:
    """Raise StackEnvironmentError unless this Python can import what every suite needs."""
    here = present or (lambda name: importlib.util.find_spec(name) is not None)
    missing = [name for name in NEEDED_MODULES if not here(name)]
    if missing:
        raise StackEnvironmentError(
            f"this Python ({sys.executable}) has no {', '.join(missing)}: a suite cannot run here",
            cause="the environment of the stack is another one",
            remedy="nox -s build, then nox -s SUITE; or, in an environment of your own: "
            "python -m pip install -r locks/torch.txt && python -m pip install -r locks/stack.txt",
        )


def default_workers(lane: str) -> int:
    """One worker per core on the CPU lane; one in all where a GPU is shared."""
    return (os.cpu_count() or 1) if lane == CPU_LANE else 1


def import_path(job: SuiteJob, base: Mapping[str, str]) -> list[Path]:
    """Where the suite imports from: arm, gate, the suites' helpers, and the wheels that a bundle brought."""
    site = base.get(SITE_VARIABLE)
    return [job.arm_root, ROOT, SUITES_DIR, SUITES_DIR / job.suite, *([Path(site)] if site else [])]


def suite_environment(job: SuiteJob, base: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """The environment of the suite's process: the caller's, less what would change a result.

    Args:
        job: the suite and its arm.
        base: the caller's environment.
        scratch: an empty folder for caches that no other run may share.
    """
    env = {name: value for name, value in base.items() if not name.startswith(SCRUBBED)}
    env |= {
        "PYTHONPATH": os.pathsep.join(map(str, import_path(job, base))),
        # Arms share unchanged files and are hashed: no run may leave bytecode in them.
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        RUN_DIR_VARIABLE: str(job.run_dir),
        # Boots are kept beside the runs, wherever the caller stood who named that folder.
        OUT_VARIABLE: str(job.run_dir.parents[2]),
        "FORKPROOF_ARM": job.subject.arm,
        "FORKPROOF_ARM_ROOT": str(job.arm_root),
        "FORKPROOF_ARM_ROOTS": json.dumps({name: str(root) for name, root in job.arm_roots.items()}),
        "FORKPROOF_LANE": job.lane,
        "TRITON_CACHE_DIR": str(scratch / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "VLLM_CACHE_ROOT": str(scratch / "vllm"),
        "VLLM_CONFIG_ROOT": str(scratch / "vllm-config"),
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_DO_NOT_TRACK": "1",
    }
    if job.lane == CPU_LANE:
        # An empty list of devices keeps vLLM's Triton import alive on a machine without a driver.
        env |= {"CUDA_VISIBLE_DEVICES": "", "TRITON_INTERPRET": "1"}
        # Workers that each start a thread per core only get in each other's way.
        env["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // max(1, job.workers)))
    return env | dict(job.subject.flags)


def suite_command(job: SuiteJob) -> list[str]:
    """The pytest command line of a suite."""
    return [
        *(sys.executable, "-m", "pytest", str(SUITES_DIR / job.suite)),
        *("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)),
        *("-p", "ci.results.recorder", "-p", "no:cacheprovider"),
        *("-n", str(job.workers), "--dist", "worksteal", f"--junitxml={job.run_dir / 'junit.xml'}"),
        *job.pytest_args,
    ]


def prepare(job: SuiteJob, started: str) -> RunHead:
    """Make the run folder anew and write who runs what; nothing of an earlier run survives.

    Returns:
        The head that the records of this run will carry.

    Raises:
        RunFolderError: the folder cannot be removed or made.
    """
    run = f"{started.replace(':', '').replace('-', '')}-{secrets.token_hex(4)}"
    head = RunHead(
        schema=SCHEMA_VERSION,
        run=run,
        lane=job.lane,
        suite=job.suite,
        started=started,
        subject=job.subject,
        conditions=read_conditions(job.lane, vllm=job.vllm),
        provenance=dict(job.provenance),
    )
    _make_anew(job.run_dir)
    start = {"run": run, "lane": job.lane, "suite": job.suite, "started": started}
    write_atomic(job.run_dir / "run.json", json.dumps(start, indent=2).encode() + b"\n")
    write_atomic(job.run_dir / HEAD_FILE, msgspec.json.format(msgspec.json.encode(head), indent=2) + b"\n")
    return head


@contextmanager
def alone(run_dir: Path) -> Iterator[int]:
    """Keep a run folder from other runs; the lock ends with the last process that has it open.

    Returns:
        Its descriptor, to hand on to whatever writes the folder.

    Raises:
        RunFolderError: another run is writing it, or there is no place for it.
    """
    with ExitStack() as stack:
        try:
            lock = stack.enter_context(held(run_dir.with_name(f".{run_dir.name}.lock"), "a run"))
        except HeldError as error:
            raise RunFolderError(
                f"{run_dir}: another run is writing it",
                remedy=f"wait until that run has ended, or set {OUT_VARIABLE} to a folder of your own",
            ) from error
        except OSError as error:
            raise _unusable(run_dir, error) from error
        yield lock


def _unusable(run_dir: Path, error: OSError) -> RunFolderError:
    return RunFolderError(
        f"{run_dir}: cannot be made: {error.strerror or error}",
        remedy=f"free that path, or set {OUT_VARIABLE} to a folder that can be written",
    )


def _make_anew(run_dir: Path) -> None:
    try:
        if run_dir.is_symlink() or run_dir.is_file():
            run_dir.unlink()
        elif run_dir.exists():
            shutil.rmtree(run_dir)
        run_dir.mkdir(parents=True)
    except OSError as error:
        raise _unusable(run_dir, error) from error


def run_suite(job: SuiteJob) -> int:
    """Run one suite to its end and return pytest's exit status; what it means is not decided here."""
    if job.workers < 0:
        raise UsageError(f"{job.workers} workers cannot run a suite", remedy="-n 2, or -n 0 for none")
    started = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with alone(job.run_dir) as lock, tempfile.TemporaryDirectory(prefix="forkproof-") as scratch:
        prepare(job, started)
        return run_logged(
            suite_command(job),
            cwd=ROOT,
            env=suite_environment(job, os.environ, Path(scratch)),
            log=job.run_dir / "console.log",
            pass_fds=[lock],
        )
