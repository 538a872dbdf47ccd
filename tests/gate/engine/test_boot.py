"""One boot of a stand-in engine, from launch to report."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ci.engine.boot import BootRun, Launch, difference, missing_lines, run_boot, serve_launch
from ci.engine.bootlog import Outcome, read_boot_log
from ci.engine.orphans import marked
from ci.engine.profile import load_profile
from ci.engine.server import Health, Server
from ci.lanes.gpu import GpuState, parse_state

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BOOT_LOG = HERE / "logs" / "v0.27-patched.log"
QUIET = parse_state({"memory.total": "24576", "memory.used": "300"}, None, ())


def launch(tmp_path: Path, *traits: str, timeout_s: float = 20.0) -> Launch:
    """A stand-in engine with these traits."""
    lines = tmp_path / "lines.log"
    shutil.copy(BOOT_LOG, lines)
    command = (sys.executable, str(HERE / "stand_in.py"), "{port}", str(lines), *traits)
    return Launch("stand-in", command, dict(os.environ), tmp_path / "boot", timeout_s)


def booted(tmp_path: Path, *traits: str, timeout_s: float = 20.0) -> BootRun:
    """Its boot."""
    return run_boot(launch(tmp_path, *traits, timeout_s=timeout_s))


def test_a_whole_boot(tmp_path: Path) -> None:
    """It served a request, its report is whole, /metrics gave the block size, its log can be read again."""
    seen: list[bool] = []
    run = run_boot(launch(tmp_path), while_up=lambda server: seen.append(server.healthy()))
    assert (run.health, run.served, seen) == (Health.READY, 1, [True])
    assert run.report.whole
    assert [one.block_tokens for one in run.cache] == [16]
    again = read_boot_log((tmp_path / "boot" / "boot.log").read_bytes(), run.report.name)
    assert again == run.report


@pytest.mark.parametrize(
    ("traits", "health", "outcome", "cause"),
    [
        (["mute"], Health.READY, Outcome.READY, None),
        (["oom"], Health.EXITED, Outcome.FAILED, "out of memory"),
        (["never-ready"], Health.TIMED_OUT, Outcome.UNFINISHED, "it answered no request for its health"),
    ],
)
def test_no_boot(
    tmp_path: Path, traits: list[str], health: Health, outcome: Outcome, cause: str | None
) -> None:
    """A boot that answers nothing, dies, or never gets ready is not whole, whatever its log says."""
    if "oom" in traits:
        # An engine that dies in its boot never says that it started.
        lines = [line for line in BOOT_LOG.read_text().splitlines() if "startup complete" not in line]
        source = launch(tmp_path, *traits)
        (tmp_path / "lines.log").write_text("\n".join(lines) + "\n")
        run = run_boot(source)
    else:
        run = booted(tmp_path, *traits, timeout_s=1.5)
    assert (run.health, run.report.outcome, run.report.cause) == (health, outcome, cause)
    assert not run.report.whole
    assert run.served == 0


def test_interrupted_boot_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C while the server is up ends it."""
    up: list[Server] = []

    def interrupt(server: Server) -> None:
        up.append(server)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_boot(launch(tmp_path), while_up=interrupt)
    assert up[0].ended is not None
    assert not up[0].running


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (QUIET, None),
        (replace(QUIET, used_bytes=(300 + 64) << 20), None),
        (replace(QUIET, used_bytes=(300 + 65) << 20), "65 MiB"),
        (replace(QUIET, pids=(12,)), "processes 12"),
        (replace(QUIET, pids=None, used_bytes=None), None),
    ],
)
def test_what_is_left_on_the_gpu(now: GpuState, words: str | None) -> None:
    """New processes and memory beyond the driver's own are named; what cannot be read is not guessed."""
    assert difference(QUIET, now) == words


def test_memory_that_comes_back_late(tmp_path: Path) -> None:
    """The driver may need a moment: memory that comes back in that time is not left behind."""
    states = [QUIET, QUIET, replace(QUIET, used_bytes=9 << 30), QUIET]
    run = run_boot(launch(tmp_path), read_state=lambda: states.pop(0) if len(states) > 1 else states[0])
    assert run.left is None


def test_serve_launch(tmp_path: Path) -> None:
    """The arm stands first, the caller's vLLM settings are gone, the profile's and the caches are there."""
    variables = {
        "FORKPROOF_MODEL": "/m",
        "FORKPROOF_DRAFTER": "/d",
        "VLLM_INT4_MQ_3D": "0",
        "TRITON_CACHE_DIR": "/old",
        "FORKPROOF_SLOWDOWN": "0.03",
        "FORKPROOF_BREAK": "declared-8",
        "HOME": "/home/x",
    }
    made = serve_launch(
        load_profile("rtx3090-memory"), 16, Path("/arm"), tmp_path / "b", variables, python="py"
    )
    assert made.command[:4] == ("py", "-m", "vllm.entrypoints.cli.main", "serve")
    assert made.command[-4:] == ("--host", "127.0.0.1", "--port", "{port}")
    assert made.env["PYTHONPATH"].split(os.pathsep) == ["/arm", str(ROOT)]
    assert (made.env["VLLM_INT4_MQ_3D"], made.env["HOME"]) == ("1", "/home/x")
    assert made.env["TRITON_CACHE_DIR"] == str(tmp_path / "b" / "caches" / "triton")
    assert not {"FORKPROOF_SLOWDOWN", "FORKPROOF_BREAK"} & made.env.keys()


def test_bytecode_stays_out_of_the_arms(tmp_path: Path) -> None:
    """Arms are hashed: Python writes no bytecode, or writes it where it was told to."""
    profile = load_profile("any-gpu-verify")
    models = {"FORKPROOF_DUMMY": "/d"}
    without = serve_launch(profile, 1, Path("/arm"), tmp_path / "b", models).env
    kept = serve_launch(profile, 1, Path("/arm"), tmp_path / "b", models, bytecode=tmp_path / "c").env
    assert (without["PYTHONDONTWRITEBYTECODE"], without.get("PYTHONPYCACHEPREFIX")) == ("1", None)
    assert (kept.get("PYTHONDONTWRITEBYTECODE"), kept["PYTHONPYCACHEPREFIX"]) == (None, str(tmp_path / "c"))


def test_descriptions_outlive_a_boot_and_nothing_compiled_does(tmp_path: Path) -> None:
    """vLLM's descriptions of model classes are handed from boot to boot; the other caches start empty."""
    made = launch(tmp_path)
    caches = made.folder / "caches" / "vllm"
    made = replace(made, descriptions=tmp_path / "kept", env={**made.env, "VLLM_CACHE_ROOT": str(caches)})

    def write(server: Server) -> None:
        (caches / "modelinfos").mkdir(parents=True, exist_ok=True)
        (caches / "modelinfos" / "a-Model.json").write_text("{}")
        (caches / "torch_compile_cache").mkdir()

    run_boot(made, while_up=write)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["a-Model.json"]
    found: list[list[str]] = []
    run_boot(made, while_up=lambda _: found.append([path.name for path in sorted(caches.rglob("*"))]))
    assert found == [["modelinfos", "a-Model.json"]]


SERVE = """
import runpy, sys
words = sys.argv[1:]
assert words[0] == "serve" and words[-4:-1] == ["--host", "127.0.0.1", "--port"], words
sys.argv = ["stand_in.py", words[-1], {lines!r}, "escapes"]
runpy.run_path({stand_in!r}, run_name="__main__")
"""
"""A module in the place of vLLM's command line."""


def test_the_command_of_vllm_serve(tmp_path: Path) -> None:
    """`vllm serve` is started from the arm, waited for, asked, read and ended, and nothing of it is left.

    What is started is the command as it is; the vLLM in the arm is a stand-in.
    """
    lines = tmp_path / "lines.log"
    shutil.copy(BOOT_LOG, lines)
    cli = tmp_path / "arm" / "vllm" / "entrypoints" / "cli"
    cli.mkdir(parents=True)
    for folder in (cli, cli.parent, cli.parents[1]):
        (folder / "__init__.py").write_text("")
    (cli / "main.py").write_text(SERVE.format(lines=str(lines), stand_in=str(HERE / "stand_in.py")))
    variables = dict(os.environ) | {"FORKPROOF_DUMMY": str(tmp_path / "model")}
    made = serve_launch(load_profile("any-gpu-dummy7"), 4, tmp_path / "arm", tmp_path / "boot", variables)
    marks: list[str] = []
    run = run_boot(made, while_up=lambda server: marks.append(server.mark))
    assert (run.health, run.served, run.report.whole) == (Health.READY, 1, True)
    assert (run.ended.by_itself, len(run.ended.swept)) == (False, 1)
    assert run.ended.seconds < 7
    assert list(marked(marks[0])) == []


def test_in_process_launch(tmp_path: Path) -> None:
    """In one process the same words start the engine; a break makes it eager, and reaches no server."""
    variables = {"FORKPROOF_DUMMY": "/d", "FORKPROOF_SITE": "/site"}
    profile = load_profile("any-gpu-dummy8")
    made = serve_launch(profile, 4, Path("/arm"), tmp_path, variables, in_process=True, broken="declared-8")
    assert made.command[1:4] == ("-m", "ci.engine.inprocess", "{port}")
    assert made.command[4] == "/d/target"
    assert made.command[-1] == "--enforce-eager"
    assert (made.env["FORKPROOF_BREAK"], made.env["VLLM_ENABLE_V1_MULTIPROCESSING"]) == ("declared-8", "0")
    assert made.env["PYTHONPATH"].split(os.pathsep)[-1] == "/site"
    served = serve_launch(profile, 4, Path("/arm"), tmp_path, variables)
    assert not {"FORKPROOF_BREAK", "VLLM_ENABLE_V1_MULTIPROCESSING"} & served.env.keys()


def test_phrases_that_a_profile_expects() -> None:
    """What the profile expects in the log and is not there is named."""
    profile = load_profile("rtx3090-depth11-98304")
    assert missing_lines(profile, "drafting 7 tokens per step (the block") == []
    assert missing_lines(profile, "") == ["drafting 7 tokens per step"]
