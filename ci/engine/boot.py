"""One boot from launch to report: started, waited for, asked once, read, ended, and checked to be gone."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ci.engine.bootlog import BootReport, closing_line, read_boot_log
from ci.engine.cacheinfo import CacheInfo, read_cache_info
from ci.engine.inprocess import BREAK_VARIABLE, READS
from ci.engine.profile import Profile, boot_environment, serve_words
from ci.engine.server import HOST, Ended, Health, Server
from ci.lanes.gpu import GpuState
from ci.lanes.run import ROOT, SCRUBBED, SITE_VARIABLE
from ci.results.files import write_atomic

PROMPT = "The first flights of the program carried no crew. "
MEMORY_BACK_S = 10.0
"""How long a driver may take to take back the memory of a process that has ended."""
POLL_S = 0.25
DESCRIPTIONS = "modelinfos"
"""The folder below VLLM_CACHE_ROOT."""
MEMORY_SLACK_BYTES = 64 << 20
"""Memory in use may differ by this much with nothing running: the driver keeps some for itself."""

ReadState = Callable[[], GpuState]
WhileUp = Callable[[Server], None]


@dataclass(frozen=True)
class Launch:
    """What is started, and where its files go."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    folder: Path
    """Of this boot alone: its log and its compile caches."""
    timeout_s: float
    descriptions: Path | None = None
    """Where vLLM's descriptions of model classes are kept between boots of one arm. They hold no compiled
    code, and making them anew costs 25 seconds of each boot."""


@dataclass(frozen=True)
class BootRun:
    """What one boot was."""

    report: BootReport
    health: Health
    served: int
    cache: tuple[CacheInfo, ...]
    """Empty when /metrics said nothing."""
    up: GpuState | None
    """The GPU while the server was up."""
    ended: Ended
    left: str | None
    """What the boot left behind on the GPU; None if nothing, or if it could not be read."""
    seconds: float


def serve_launch(
    profile: Profile,
    max_num_seqs: int,
    arm_root: Path,
    folder: Path,
    variables: Mapping[str, str],
    *,
    caches: Path | None = None,
    in_process: bool = False,
    broken: str | None = None,
    descriptions: Path | None = None,
    bytecode: Path | None = None,
    python: str = sys.executable,
) -> Launch:
    """The launch of an engine from an arm: `vllm serve`, or the engine in one process.

    Args:
        profile: the experiment.
        max_num_seqs: one of the profile's.
        arm_root: the arm, which stands first on the import path.
        folder: of this boot alone; emptied when it starts.
        variables: the caller's environment, where model paths come from.
        caches: the compile caches of a shared lineage; by default the boot has empty ones of its own.
        in_process: without vLLM's server, so that its exact numbers can be read.
        broken: a deliberate break, in process only.
        descriptions: of model classes, kept between boots of this arm; by default each boot makes them anew.
        bytecode: where Python keeps its bytecode, outside the arms; by default it keeps none.
        python: the interpreter that has the stack.
    """
    env = {
        name: value
        for name, value in variables.items()
        if not name.startswith(SCRUBBED) and name not in READS
    }
    env |= {
        "PYTHONPATH": os.pathsep.join(map(str, import_path(arm_root, variables))),
        **({"PYTHONPYCACHEPREFIX": str(bytecode)} if bytecode else {"PYTHONDONTWRITEBYTECODE": "1"}),
        "PYTHONUNBUFFERED": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_DO_NOT_TRACK": "1",
    }
    env |= boot_environment(profile, caches or folder / "caches")
    words = serve_words(profile, max_num_seqs, variables)
    command = (python, "-m", "vllm.entrypoints.cli.main", "serve", *words, "--host", HOST, "--port", "{port}")
    if in_process:
        # One process: its objects can be read, and a break that is put into it is in the engine.
        env["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        command = (python, "-m", "ci.engine.inprocess", "{port}", *words)
        if broken:
            env[BREAK_VARIABLE] = broken
            command += ("--enforce-eager",)  # a replayed graph calls nothing that could count
    name, timeout_s = f"{profile.name}-{max_num_seqs}", profile.limits.boot_timeout_s
    return Launch(name, command, env, folder, timeout_s, descriptions)


def import_path(arm_root: Path, variables: Mapping[str, str]) -> list[Path]:
    """Where an engine imports from: the arm, the gate, and the wheels that a bundle brought."""
    site = variables.get(SITE_VARIABLE)
    return [arm_root, ROOT, *([Path(site)] if site else [])]


def run_boot(launch: Launch, read_state: ReadState | None = None, while_up: WhileUp | None = None) -> BootRun:
    """Boot once and end it again, whatever happens in between.

    Args:
        launch: what to start.
        read_state: reads the GPU; None where there is none.
        while_up: called with the healthy server, after its first answer.
    """
    begun = time.monotonic()
    before = read_state() if read_state else None
    if launch.folder.exists():
        shutil.rmtree(launch.folder)
    own = Path(launch.env["VLLM_CACHE_ROOT"], DESCRIPTIONS) if launch.descriptions else None
    copy_over(launch.descriptions, own)
    served = 0
    cache: tuple[CacheInfo, ...] = ()
    up: GpuState | None = None
    with Server(launch.command, launch.env, launch.folder / "server.log") as server:
        health = server.wait_healthy(launch.timeout_s)
        if health is Health.READY:
            served = int(bool(server.complete(PROMPT)))
            cache = tuple(read_cache_info(server.get("/metrics") or ""))
            up = read_state() if read_state else None
            if while_up:
                while_up(server)
            health = Health.READY if server.healthy() else Health.EXITED
        report = close_log(server.log, launch, health, served)
    left = left_behind(before, read_state) if before and read_state else None
    ended = server.stop()
    copy_over(own, launch.descriptions)
    return BootRun(report, health, served, cache, up, ended, left, time.monotonic() - begun)


def copy_over(source: Path | None, target: Path | None) -> None:
    """Copy the files of one folder, each whole; without a source there is nothing to copy."""
    if source is None or target is None or not source.is_dir():
        return
    for file in source.glob("*.json"):
        write_atomic(target / file.name, file.read_bytes())


def close_log(server_log: Path, launch: Launch, health: Health, served: int) -> BootReport:
    """Keep the log as it stood while the server was up: what its end prints says nothing about its boot."""
    said = server_log.read_bytes() if server_log.exists() else b""
    healthy = health is Health.READY
    exited = health is Health.EXITED
    closed = said + closing_line(said, healthy=healthy, served=served, exited=exited)
    path = launch.folder / "boot.log"
    write_atomic(path, closed)
    return read_boot_log(closed, f"{launch.name}/{path.name}", healthy)


def left_behind(before: GpuState, read_state: ReadState) -> str | None:
    """What is still on the GPU that was not there before; waits for the driver to take memory back."""
    deadline = time.monotonic() + MEMORY_BACK_S
    while True:
        now = read_state()
        left = difference(before, now)
        if left is None or time.monotonic() > deadline:
            return left
        time.sleep(POLL_S)


def difference(before: GpuState, now: GpuState) -> str | None:
    """New processes or memory, in words; None if there are none or nothing can be read."""
    if before.pids is not None and now.pids is not None and (new := set(now.pids) - set(before.pids)):
        return f"processes {', '.join(map(str, sorted(new)))}"
    if before.used_bytes is not None and now.used_bytes is not None:
        more = now.used_bytes - before.used_bytes
        if more > MEMORY_SLACK_BYTES:
            return f"{more >> 20} MiB"
    return None


def missing_lines(profile: Profile, log: str) -> list[str]:
    """Phrases that the profile expects in the log and that are not there."""
    return [phrase for phrase in profile.expect.lines if phrase not in log]
