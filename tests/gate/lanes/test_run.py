from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ci.errors import UsageError
from ci.lanes import run
from ci.lanes.run import (
    RunFolderError,
    StackEnvironmentError,
    SuiteJob,
    check_environment,
    check_suite,
    suite_environment,
)
from ci.results.jsonl import read_results
from ci.results.records import Subject

SUITE = """
import os
import kernels
import vectors

def test_grid(measure, reached):
    counter = reached(kernels, "rows")
    measure("grid", "rows", kernels.rows(vectors.TOKENS), unit="rows")
    measure("grid", "flag", os.environ.get("VLLM_INT4_MQ_3D"), unit="flag", reason="not set")
    measure("grid", "devices", os.environ["CUDA_VISIBLE_DEVICES"], unit="devices")
    measure("grid", "calls", counter.calls, unit="calls")
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SuiteJob:
    """A tiny suite and a tiny arm."""
    (tmp_path / "tests" / "tiny").mkdir(parents=True)
    (tmp_path / "tests" / "tiny" / "test_tiny.py").write_text(SUITE)
    (tmp_path / "tests" / "tiny" / "vectors.py").write_text("TOKENS = 8\n")
    (tmp_path / "tests" / "gate").mkdir()
    (tmp_path / "tests" / "gate" / "test_cli.py").touch()
    (tmp_path / "arm").mkdir()
    (tmp_path / "arm" / "kernels.py").write_text("def rows(n):\n    return 2 * n\n")
    monkeypatch.setattr(run, "SUITES_DIR", tmp_path / "tests")
    return SuiteJob(
        suite="tiny",
        lane="cpu",
        run_dir=tmp_path / "out" / "runs" / "cpu" / "tiny",
        arm_root=tmp_path / "arm",
        subject=Subject("patched", "00ff", {"VLLM_INT4_MQ_3D": "1"}),
        vllm="0.27.1",
        provenance={"wheel": "ab"},
        workers=2,
    )


def test_a_suite_leaves_a_whole_run_folder(job: SuiteJob, capfd: pytest.CaptureFixture[str]) -> None:
    """The suite sees the arm and its flags; the folder says who ran, what came out and what was printed."""
    assert run.run_suite(job) == 0
    start = json.loads((job.run_dir / "run.json").read_text())
    results = read_results(job.run_dir / "records.jsonl")
    assert {record.metric: record.value for record in results.records} == {
        "rows": 16,
        "flag": "1",
        "devices": "",
        "calls": 1,
    }
    assert (start["run"], start["started"]) == (results.head.run, results.head.started)
    assert (start["lane"], start["suite"]) == ("cpu", "tiny")
    assert results.head.conditions["vllm"] == "0.27.1"
    assert results.head.provenance == {"wheel": "ab"}
    assert "1 passed" in (job.run_dir / "console.log").read_text()
    assert "1 passed" in capfd.readouterr().out
    assert (job.run_dir / "junit.xml").exists()
    assert not list(job.arm_root.rglob("__pycache__"))


def test_nothing_of_an_earlier_run_survives(job: SuiteJob) -> None:
    """A stale record file is gone before the new run starts, so a run that dies leaves none."""
    job.run_dir.mkdir(parents=True)
    (job.run_dir / "records.jsonl").write_text("old\n")
    head = run.prepare(job, "2026-01-02T03:04:05Z")
    assert sorted(path.name for path in job.run_dir.iterdir()) == ["head.json", "run.json"]
    assert run.prepare(job, "2026-01-02T03:04:05Z").run != head.run


def test_a_run_folder_has_one_writer(job: SuiteJob) -> None:
    """A second run of a suite is refused while the first one writes, and takes nothing away; then it may."""
    assert run.run_suite(job) == 0
    with run.alone(job.run_dir), pytest.raises(RunFolderError, match="another run is writing it") as caught:
        run.run_suite(job)
    assert "FORKPROOF_OUT" in (caught.value.remedy or "")
    assert (job.run_dir / "records.jsonl").exists()
    assert run.run_suite(job) == 0


def test_a_writer_that_outlives_its_run_keeps_the_folder(tmp_path: Path) -> None:
    """Where a run is killed and what it started goes on writing, the folder stays closed until that ends."""
    with run.alone(tmp_path / "tiny") as lock:
        writer = subprocess.Popen(["sleep", "60"], pass_fds=[lock])
    try:
        with pytest.raises(RunFolderError, match="another run is writing it"), run.alone(tmp_path / "tiny"):
            pass
    finally:
        writer.kill()
        writer.wait()
    with run.alone(tmp_path / "tiny"):
        pass


def test_the_suite_is_handed_the_lock(job: SuiteJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that writes the folder has the lock open, so it outlives a run that is killed."""
    handed: list[int] = []

    def logged(*_: object, pass_fds: list[int], **__: object) -> int:
        handed.extend(os.fstat(one).st_ino for one in pass_fds)
        return 0

    monkeypatch.setattr(run, "run_logged", logged)
    assert run.run_suite(job) == 0
    assert handed == [(job.run_dir.parent / ".tiny.lock").stat().st_ino]


def test_a_run_folder_that_cannot_be_made(job: SuiteJob, tmp_path: Path) -> None:
    """A file where a folder should be is named, with the setting that chose it."""
    (tmp_path / "file").touch()
    elsewhere = replace(job, run_dir=tmp_path / "file" / "runs" / "cpu" / "tiny")
    with pytest.raises(RunFolderError, match="cannot be made") as caught:
        run.prepare(elsewhere, "2026-01-02T03:04:05Z")
    with pytest.raises(RunFolderError, match="cannot be made"):
        run.run_suite(elsewhere)
    assert "FORKPROOF_OUT" in (caught.value.remedy or "")


def test_a_run_folder_that_is_a_link_is_replaced_and_not_followed(job: SuiteJob, tmp_path: Path) -> None:
    """Removing the old folder never reaches through a link."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    job.run_dir.parent.mkdir(parents=True)
    job.run_dir.symlink_to(tmp_path / "precious")
    run.prepare(job, "2026-01-02T03:04:05Z")
    assert (tmp_path / "precious" / "file").exists()
    assert not job.run_dir.is_symlink()


def test_the_callers_settings_do_not_reach_the_suite(job: SuiteJob, tmp_path: Path) -> None:
    """Exported vLLM, Triton, pytest and Python settings are dropped; the job's own flags are set."""
    base = {
        "PATH": "/usr/bin",
        "VLLM_INT4_MQ_3D": "0",
        "VLLM_INT4_MQ_3D_DEBUG": "1",
        "TRITON_INTERPRET": "0",
        "PYTEST_ADDOPTS": "-k nothing",
        "PYTHONPATH": "/elsewhere",
        "FORKPROOF_ARM": "stock",
    }
    env = suite_environment(job, base, tmp_path)
    assert env["PYTHONPATH"].split(":")[:2] == [str(job.arm_root), str(run.ROOT)]
    assert (env["VLLM_INT4_MQ_3D"], env["TRITON_INTERPRET"], env["CUDA_VISIBLE_DEVICES"]) == ("1", "1", "")
    assert (env["PATH"], env["FORKPROOF_ARM"], env["FORKPROOF_LANE"]) == ("/usr/bin", "patched", "cpu")
    assert not {"VLLM_INT4_MQ_3D_DEBUG", "PYTEST_ADDOPTS"} & env.keys()


def test_boots_are_kept_beside_the_runs(job: SuiteJob, tmp_path: Path) -> None:
    """The suite stands in another folder than its caller, who may have named the place from there."""
    env = suite_environment(job, {"FORKPROOF_OUT": "results"}, tmp_path)
    assert env["FORKPROOF_OUT"] == str(tmp_path / "out")
    assert job.run_dir == tmp_path / "out" / "runs" / "cpu" / "tiny"


def test_workers_share_the_cores(job: SuiteJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU lane the workers together start a thread per core, and each at least one."""
    monkeypatch.setattr("ci.lanes.run.os.cpu_count", lambda: 8)
    for workers, threads in ((0, "8"), (1, "8"), (2, "4"), (3, "2"), (20, "1")):
        env = suite_environment(replace(job, workers=workers), {}, tmp_path)
        assert env["OMP_NUM_THREADS"] == threads


def test_a_gpu_lane_keeps_its_devices(job: SuiteJob, tmp_path: Path) -> None:
    """Only the CPU lane hides the GPUs and interprets the kernels."""
    gpu = SuiteJob("tiny", "h200", job.run_dir, job.arm_root, job.subject, job.vllm)
    env = suite_environment(gpu, {"CUDA_VISIBLE_DEVICES": "3"}, tmp_path)
    assert env["CUDA_VISIBLE_DEVICES"] == "3"
    assert "TRITON_INTERPRET" not in env


def test_caches_are_private_to_a_run(job: SuiteJob, tmp_path: Path) -> None:
    """No run reads kernels that another run compiled."""
    env = suite_environment(job, {"TRITON_CACHE_DIR": "/shared"}, tmp_path)
    for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT"):
        assert Path(env[name]).is_relative_to(tmp_path)


def test_pytest_options_stand_behind_the_gates_own(job: SuiteJob) -> None:
    """An option given by hand wins over the gate's."""
    command = run.suite_command(replace(job, pytest_args=("--mutate", "seq-rows")))
    assert command[:3] == [sys.executable, "-m", "pytest"]
    assert command[-2:] == ["--mutate", "seq-rows"]


def test_a_suite_that_does_not_exist_is_named_with_those_that_do(job: SuiteJob) -> None:
    """The gate's own tests are no suite; the message lists the suites there are."""
    check_suite("tiny")
    with pytest.raises(UsageError) as caught:
        check_suite("gate")
    assert "tiny" in str(caught.value)


def test_a_python_without_torch_is_told_what_to_do() -> None:
    """A suite never skips itself: what is missing is an error with the command that installs it."""
    with pytest.raises(StackEnvironmentError) as caught:
        check_environment(lambda name: name != "torch")
    assert caught.value.what.endswith("has no torch: a suite cannot run here")
    assert "nox -s build" in str(caught.value)
    check_environment(lambda _: True)


def test_workers_below_zero_are_refused_before_anything_is_removed(job: SuiteJob) -> None:
    """xdist would take a negative number for none; the last run's folder stays as it is."""
    job.run_dir.mkdir(parents=True)
    (job.run_dir / "records.jsonl").write_text("old\n")
    with pytest.raises(UsageError, match="-5 workers"):
        run.run_suite(replace(job, workers=-5))
    assert [path.name for path in job.run_dir.iterdir()] == ["records.jsonl"]
