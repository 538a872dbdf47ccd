"""What the runner's hooks do before and after a job, on a stand-in for /proc."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

HOOKS = Path(__file__).parents[2] / ".github" / "runner"


@pytest.fixture
def sleepers(tmp_path: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """An engine that its mark gives away, and a process without one, as a folder like /proc shows them."""
    made = {}
    for name, environment in {
        "engine": b"A=1\0FORKPROOF_BOOT=7-8-9\0",
        "other": b"X_FORKPROOF_BOOT=1\0",
    }.items():
        made[name] = subprocess.Popen(["sleep", "60"])
        folder = tmp_path / "proc" / str(made[name].pid)
        folder.mkdir(parents=True)
        (folder / "environ").write_bytes(environment)
    yield made
    for child in made.values():
        child.kill()
        child.wait()


def hook(name: str, tmp_path: Path, nvidia_smi: str) -> subprocess.CompletedProcess[str]:
    """Run a hook with a driver of our own."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(f"#!/bin/sh\n{nvidia_smi}\n")
    (tools / "nvidia-smi").chmod(0o755)
    env = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "FORKPROOF_PROC": str(tmp_path / "proc")}
    bash = shutil.which("bash") or "bash"
    return subprocess.run([bash, str(HOOKS / name)], env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["job-started.sh", "job-completed.sh"])
def test_an_engine_does_not_outlive_its_job(
    name: str, sleepers: dict[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """Before a job and after it; what has no mark of ours stays, and one that went meanwhile is no error."""
    gone = tmp_path / "proc" / "4194305"
    gone.mkdir()
    (gone / "environ").symlink_to("nowhere")
    done = hook(name, tmp_path, "echo 3 MiB")
    assert (done.returncode, done.stderr) == (0, "")
    assert sleepers["engine"].wait(5) == -9
    time.sleep(0.1)
    assert sleepers["other"].poll() is None
    assert str(sleepers["engine"].pid) in done.stdout
    assert "3 MiB" in done.stdout


def test_a_dead_driver_stops_a_job_before_it_starts(tmp_path: Path) -> None:
    """Nothing is measured on it; after a job it changes nothing, for the job has its own verdict."""
    done = hook("job-started.sh", tmp_path, "exit 9")
    assert done.returncode == 1
    assert "::error::the GPU does not answer" in done.stdout
    shutil.rmtree(tmp_path / "tools")
    assert hook("job-completed.sh", tmp_path, "exit 9").returncode == 0


def test_a_runner_serves_one_job_and_never_sees_the_token(tmp_path: Path) -> None:
    """Registered for one job under the lane's label; the administrator's token stays with root."""
    tools, folder = tmp_path / "tools", tmp_path / "runner"
    for place in (tools, folder):
        place.mkdir()
    scripts = {
        tools / "gh": 'echo "registration-of-$4"',
        tools / "runuser": f'echo "$2" >> "{tmp_path}/users"; shift 3; exec "$@"',
        folder / "config.sh": f'echo "$@" > "{tmp_path}/config"; env > "{tmp_path}/env"; touch .runner',
        folder / "run.sh": f'[ -e .runner ] && env >> "{tmp_path}/env" && echo ran',
    }
    for path, text in scripts.items():
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    (folder / ".credentials").write_text("of a runner that was killed")
    env = {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "GH_TOKEN": "the-secret",
        "OTHER": "the-secret",
    }
    words = [str(HOOKS / "serve.sh"), "us/it", "rtx3090", str(folder), "root"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    config = (tmp_path / "config").read_text()
    assert "--ephemeral" in config
    assert "--url https://github.com/us/it" in config
    assert "--token registration-of-repos/us/it/actions/runners/registration-token" in config
    assert config.endswith("--labels rtx3090\n")
    assert "the-secret" not in (tmp_path / "env").read_text()
    assert not (folder / ".credentials").exists()
    assert (tmp_path / "users").read_text() == "root\nroot\n"
