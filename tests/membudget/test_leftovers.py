"""However a boot ends, it leaves no process and no GPU memory: seen through the driver (NVML).

The engine itself is booted where its own end is the case: killed while it serves, out of memory in its boot.
Elsewhere a process that only holds memory stands for it, under the same harness.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from test_boots import session_of

from ci.engine.boot import MEMORY_SLACK_BYTES, difference, left_behind
from ci.engine.bootlog import Outcome
from ci.engine.orphans import abandoned, end_marked, marked
from ci.engine.profile import load_profile
from ci.engine.server import Health, Server
from ci.engine.session import Boot
from ci.lanes.gpu import GpuState, read_state
from ci.lanes.run import ROOT

HERE = Path(__file__).parent
GIB = 1 << 30
HOLDS_GIB = 4
"""By the stand-in, and again by its worker: 8 GiB together, which every lane's GPU has."""
UP_S = 90.0
CANCEL_S = 7.0
"""A cancelled job is killed after 7.5 s."""
EAGER = load_profile("any-gpu-dummy7")
EAGER = msgspec.structs.replace(
    EAGER,
    experiment="leftovers",
    serve=msgspec.structs.replace(EAGER.serve, eager=True, max_num_seqs=[4]),
    limits=msgspec.structs.replace(EAGER.limits, boot_timeout_s=150.0),
)
"""The dummy without graphs: its end is the case, not its speed."""


@pytest.fixture
def before(gpu: None) -> Iterator[GpuState]:
    """The GPU before a test, on which nothing runs; and the test's own processes are ended, come what may."""
    state = read_state()
    assert state.used_bytes is not None, "memory in use cannot be read, so nothing can be shown"
    yield state
    for mark in {mark for _, mark in ours("")} | {mark for _, mark in abandoned()}:
        end_marked(mark)


def ours(mark: str) -> list[tuple[int, str]]:
    """Living processes of the boots of this process, and of the one with this mark."""
    return [one for one in marked() if one[1] == mark or one[1].startswith(f"{os.getpid()}-")]


def holder(folder: Path, *traits: str) -> Server:
    """A server that holds GPU memory."""
    command = [sys.executable, str(HERE / "holder.py"), "{port}", str(HOLDS_GIB), *traits]
    return Server(command, dict(os.environ), folder / "server.log")


def held_bytes(before: GpuState, at_least: int) -> int:
    """What is in use beyond the beginning, once that is so much: without it nothing could be left behind."""
    deadline = time.monotonic() + UP_S
    while (more := used(read_state()) - used(before)) < at_least:
        assert time.monotonic() < deadline, f"only {more >> 20} MiB were taken"
        time.sleep(0.5)
    return more


def used(state: GpuState) -> int:
    """Memory in use, in bytes."""
    assert state.used_bytes is not None
    return state.used_bytes


def nothing_left(measure: Any, case: str, before: GpuState, held: int | None, mark: str = "") -> None:
    """Record and check that neither a process nor memory is left."""
    left = left_behind(before, read_state)
    processes = len(ours(mark))
    measure(case, "processes", processes, unit="processes")
    measure(case, "bytes", max(0, used(read_state()) - used(before) - MEMORY_SLACK_BYTES), unit="bytes")
    if held is not None:
        measure(case, "held", held, unit="bytes")
    assert (left, processes) == (None, 0)


def harness(folder: Path) -> tuple[subprocess.Popen[bytes], str, int]:
    """A harness in a process of its own with its server up; its mark, and its keeper."""
    source = (
        f"import sys, time; sys.path[:0] = {[str(ROOT), str(HERE), *sys.path]!r}\n"
        "from pathlib import Path\nfrom test_leftovers import holder\n"
        "from ci.lanes.process import terminated_as_interrupted\n"
        f"with terminated_as_interrupted(), holder(Path({str(folder)!r})) as server:\n"
        f"    server.wait_healthy({UP_S}); print(server.mark, server._keeper.pid, flush=True)\n"
        "    time.sleep(300)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdout is not None
    mark, keeper = child.stdout.readline().decode().split()
    return child, mark, int(keeper)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill-harness", "cancelled"])
def test_harness_ends(measure: Any, before: GpuState, tmp_path: Path, number: signal.Signals) -> None:
    """Kill -9 of the harness, and a cancelled job, end engine and worker."""
    child, mark, _ = harness(tmp_path)
    held = held_bytes(before, 2 * HOLDS_GIB * GIB)
    begun = time.monotonic()
    child.send_signal(number)
    while list(marked(mark)) and time.monotonic() - begun < UP_S:
        time.sleep(0.05)
    assert time.monotonic() - begun < CANCEL_S
    child.wait(timeout=CANCEL_S)
    case = "left-kill-harness" if number is signal.SIGKILL else "left-cancelled"
    nothing_left(measure, case, before, held, mark)


def test_time_out(measure: Any, before: GpuState, tmp_path: Path) -> None:
    """A boot that never answers is ended when its time is up."""
    with holder(tmp_path, "never-ready") as server:
        held = held_bytes(before, 2 * HOLDS_GIB * GIB)
        assert server.wait_healthy(1.0) is Health.TIMED_OUT
    nothing_left(measure, "left-time-out", before, held)


def test_sweep(measure: Any, before: GpuState, tmp_path: Path) -> None:
    """With harness and keeper killed together a worker is left, the check sees it, and the sweep ends it."""
    child, mark, keeper = harness(tmp_path)
    held = held_bytes(before, 2 * HOLDS_GIB * GIB)
    os.kill(keeper, signal.SIGSTOP)  # so that it cannot act between the two kills
    child.kill()
    child.wait()
    os.kill(keeper, signal.SIGKILL)
    deadline = time.monotonic() + CANCEL_S
    while len(list(marked(mark))) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    left = difference(before, read_state())
    measure.control("control-leftover", red=left is not None)
    assert left is not None
    for abandoned_mark in {found for _, found in abandoned()}:
        end_marked(abandoned_mark)
    nothing_left(measure, "left-sweep", before, held, mark)


def test_killed_engine(measure: Any, before: GpuState) -> None:
    """Kill -9 of the engine while it serves takes everything along."""
    held: list[int] = []

    def kill(server: Server) -> None:
        held.append(used(read_state()) - used(before))
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        assert server.wait_healthy(UP_S) is Health.EXITED

    session = session_of(EAGER, "leftovers")
    run = session.boot(Boot(session.subject, 4, 1), session.folder / "killed", kill)
    assert (run.health, run.served) == (Health.EXITED, 1)
    assert not run.report.whole
    nothing_left(measure, "left-kill-engine", before, held[0])


def test_out_of_memory(measure: Any, before: GpuState) -> None:
    """An engine that is told to take more than the GPU has runs out of memory in its boot."""
    total = before.total_bytes
    assert total is not None
    flags = [*EAGER.serve.flags, "--kv-cache-memory-bytes", str(2 * total)]
    serve = msgspec.structs.replace(EAGER.serve, flags=flags)
    session = session_of(msgspec.structs.replace(EAGER, serve=serve), "leftovers")
    run = session.boot(Boot(session.subject, 4, 1), session.folder / "out-of-memory", lambda _: None)
    assert (run.report.outcome, run.report.cause) == (Outcome.FAILED, "out of memory")
    nothing_left(measure, "left-out-of-memory", before, None)
