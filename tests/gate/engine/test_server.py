"""A server is asked, ended, and gone: however it behaves, and whatever becomes of the harness."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ci.engine.orphans import abandoned, end_marked, marked
from ci.engine.server import HOST, Health, Server, ServerError
from tests.gate.engine.listener import played

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BOOT_LOG = HERE / "logs" / "v0.27-patched.log"
GONE_S = 8.0
"""Within this every process must be gone; it bounds how long a failing test waits, nothing else."""


def stand_in(folder: Path, *traits: str) -> Server:
    """A server that behaves like an engine with these traits."""
    folder.mkdir(exist_ok=True)
    log = folder / "boot-lines.log"
    shutil.copy(BOOT_LOG, log)
    command = [sys.executable, str(HERE / "stand_in.py"), "{port}", str(log), *traits]
    return Server(command, dict(os.environ), folder / "server.log")


def pids(folder: Path) -> list[int]:
    """Engine and worker, once they have started."""
    file = folder / "boot-lines.log.pids"
    deadline = time.monotonic() + GONE_S
    while time.monotonic() < deadline:
        if file.exists() and len(words := file.read_text().split()) == 2:
            return [int(word) for word in words]
        time.sleep(0.02)
    raise AssertionError("the stand-in did not start")


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def all_gone(found: list[int]) -> bool:
    """Whether every process is gone, now or shortly."""
    deadline = time.monotonic() + GONE_S
    while any(map(alive, found)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(alive, found))


def test_a_boot_that_answers(tmp_path: Path) -> None:
    """Health, a completion and the metrics are there; afterwards nothing is, and the log is kept."""
    with stand_in(tmp_path) as server:
        assert server.wait_healthy(20) is Health.READY
        assert server.complete("hello") == "word"
        assert "cache_config_info" in (server.get("/metrics") or "")
        found = pids(tmp_path)
        assert all(map(alive, found))
    assert server.ended is not None
    assert not server.ended.by_itself
    assert all_gone(found)
    assert server.log.read_bytes() == BOOT_LOG.read_bytes()


def test_the_port_is_kept(tmp_path: Path) -> None:
    """From before the server listens until it has ended nobody else gets its port."""
    with stand_in(tmp_path) as server:
        for _ in range(2):
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind((HOST, server.port))
            assert server.wait_healthy(20) is Health.READY
    assert server._kept is not None
    assert server._kept.fileno() == -1  # closed
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((HOST, server.port))


@pytest.mark.parametrize("traits", [["escapes"], ["deaf", "escapes"]], ids="-".join)
def test_a_server_that_does_not_go(tmp_path: Path, traits: list[str]) -> None:
    """Deaf to signals, or gone from its session: it is killed within the time of a cancelled job."""
    with stand_in(tmp_path, *traits) as server:
        assert server.wait_healthy(20) is Health.READY
        found = pids(tmp_path)
    assert server.ended is not None
    assert server.ended.seconds < 7
    assert all_gone(found)
    assert list(marked(server.mark)) == []
    assert (found[1] in server.ended.swept) == ("escapes" in traits)


def test_time_out_and_exception_end_the_server(tmp_path: Path) -> None:
    """A boot that never answers is waited for so long, and leaving by an exception ends it as well."""
    server = stand_in(tmp_path, "never-ready")

    def boot() -> None:
        with server:
            assert server.wait_healthy(0.6) is Health.TIMED_OUT
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        boot()
    assert all_gone(pids(tmp_path))


def test_a_server_that_dies_at_boot(tmp_path: Path) -> None:
    """An engine that runs out of memory is seen as gone, with its exit code, and its worker goes too."""
    with stand_in(tmp_path, "oom") as server:
        assert server.wait_healthy(20) is Health.EXITED
    assert server.ended is not None
    assert (server.ended.exit_code, server.ended.by_itself) == (1, True)
    assert all_gone(pids(tmp_path))


def test_killed_server(tmp_path: Path) -> None:
    """Kill -9 of the engine takes its worker along."""
    with stand_in(tmp_path) as server:
        found = pids(tmp_path)
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        assert server.wait_healthy(20) is Health.EXITED
        assert all_gone(found)


def test_killed_keeper(tmp_path: Path) -> None:
    """Kill -9 of the keeper kills the engine with it, and the harness ends the worker."""
    with stand_in(tmp_path, "escapes") as server:
        found = pids(tmp_path)
        assert server._keeper is not None
        server._keeper.kill()
        server._keeper.wait()
    assert all_gone(found)


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name
)
def test_killed_harness(tmp_path: Path, number: signal.Signals) -> None:
    """Whatever ends the harness, kill -9 included, ends engine and worker."""
    source = (
        f"import sys, time; sys.path[:0] = [{str(ROOT)!r}, {str(HERE)!r}]\n"
        "from pathlib import Path\nfrom test_server import stand_in\n"
        "from ci.lanes.process import terminated_as_interrupted\n"
        f"with terminated_as_interrupted(), stand_in(Path({str(tmp_path)!r}), 'escapes') as server:\n"
        "    server.wait_healthy(20); print('up', flush=True); time.sleep(60)\n"
    )
    harness = subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert harness.stdout is not None
    assert harness.stdout.readline() == b"up\n"
    found = pids(tmp_path)
    harness.send_signal(number)
    harness.wait(timeout=GONE_S)
    harness.stdout.close()
    assert all_gone(found)


def test_harness_and_keeper_killed_together(tmp_path: Path) -> None:
    """With nobody left to act the engine still dies with its keeper; what it leaves can be found."""
    source = (
        f"import sys, time; sys.path[:0] = [{str(ROOT)!r}, {str(HERE)!r}]\n"
        "from pathlib import Path\nfrom test_server import stand_in\n"
        f"with stand_in(Path({str(tmp_path)!r}), 'escapes') as server:\n"
        "    server.wait_healthy(20); print(server._keeper.pid, flush=True); time.sleep(60)\n"
    )
    harness = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE)
    assert harness.stdout is not None
    keeper = int(harness.stdout.readline())
    engine, worker = pids(tmp_path)
    os.kill(keeper, signal.SIGSTOP)  # so that it cannot act between the two kills
    harness.kill()
    harness.wait()
    os.kill(keeper, signal.SIGKILL)
    harness.stdout.close()
    assert all_gone([engine])
    left = dict(abandoned())
    assert worker in left
    assert end_marked(left[worker]) == [worker]


def test_own_boots_are_not_abandoned(tmp_path: Path) -> None:
    """A server of a living harness is nobody's leftover."""
    with stand_in(tmp_path) as server:
        found = pids(tmp_path)
        assert [mark for _, mark in abandoned() if mark == server.mark] == []
        assert {pid for pid, _ in marked(server.mark)} >= set(found)


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"a":',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x00\r\n\r\n",
        b"",
        b"HTTP/1.1 500 Internal Server Error\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000,
    ],
    ids=["cut", "no chunk", "no http", "nothing", "status", "no json"],
)
def test_an_answer_that_is_none(tmp_path: Path, answer: bytes) -> None:
    """However an answer fails, it is a named error, or nothing where an answer may be missing."""

    def asked(ask: Callable[[Server], object]) -> object:
        with played(answer) as url:
            return ask(Server([], {}, tmp_path / "server.log", port=int(urlsplit(url).port or 0)))

    with pytest.raises(ServerError, match=r"^/x: no usable answer: [ -~]+\n") as caught:
        asked(lambda server: server.post("/x", {}))
    assert str(tmp_path / "server.log") in str(caught.value.remedy)
    assert asked(lambda server: server.complete("hello")) is None
    assert (asked(lambda server: server.get("/metrics")) is None) == (b"[[" not in answer)
    assert asked(Server.healthy) == (b" 200 " in answer)


def test_what_a_server_refuses_with(tmp_path: Path) -> None:
    """What it said of its refusal is told, in one line and shortened, also where the rest never comes."""
    said = b'{"error": {"message": "this model has\nno chat template"}}' + b"." * 9000
    for body, missing, words in ((said, 0, "no chat template"), (b"cut", 5, "cut"), (b"", 5, "400")):
        head = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % (len(body) + missing)
        with played(head, body, hang_s=1.0 if missing else 0.0) as url:
            server = Server([], {}, tmp_path / "server.log", port=int(urlsplit(url).port or 0))
            with pytest.raises(ServerError, match=f"^/x: no usable answer: [ -~]*{words}") as caught:
                server.post("/x", {}, timeout_s=0.3)
        assert len(caught.value.what) < 1000


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    """It is an error of its own, and leaves nothing."""
    server = Server([str(tmp_path / "nothing")], dict(os.environ), tmp_path / "server.log")
    with pytest.raises(ServerError, match="could not be started"):
        server.__enter__()
