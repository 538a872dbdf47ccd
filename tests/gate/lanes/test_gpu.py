"""What a run asks of a GPU, and who may have it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ci.lanes.gpu import (
    GpuBusyError,
    GpuState,
    GpuUnfitError,
    Need,
    compute_pids,
    first_visible,
    lease,
    parse_state,
    read_state,
    require_fit,
    unfit_reasons,
)

ROOT = Path(__file__).parents[3]
GIB = 1 << 30
ANSWER = {
    "uuid": "GPU-1",
    "name": "NVIDIA GeForce RTX 3090",
    "driver_version": "610.43.02",
    "memory.total": "24576",
    "memory.used": "312",
    "clocks.sm": "210",
    "clocks.mem": "405",
    "power.limit": "250.00",
    "temperature.gpu": "41",
}
QUIET = parse_state(ANSWER, "0x0000000000000001", ())


def test_answers_become_bytes_and_numbers() -> None:
    """MiB become bytes, the throttle reasons a bit set."""
    assert (QUIET.total_bytes, QUIET.used_bytes) == (24 * GIB, 312 << 20)
    assert (QUIET.power_limit_w, QUIET.temperature_c, QUIET.throttle) == (250.0, 41, 1)


@pytest.mark.parametrize("word", ["[N/A]", "N/A", "[Not Supported]", "", "[Unknown Error]"])
def test_unreadable_is_none(word: str) -> None:
    """Each way of the driver to say nothing is None, for numbers and words."""
    state = parse_state(dict.fromkeys(ANSWER, word), word, None)
    assert set(vars(state).values()) == {None}


def test_quiet_gpu_is_fit() -> None:
    """Nothing stands against a quiet GPU that has what is asked."""
    need = Need(
        20 * GIB, 1.3, 250.0, ("memory", "clocks", "power_limit", "temperature", "throttle", "processes")
    )
    assert unfit_reasons(QUIET, need, 0.4) == []


@pytest.mark.parametrize(
    ("state", "need", "load", "words"),
    [
        (replace(QUIET, pids=(7, 9)), Need(), 0.0, "other processes are on it: 7, 9"),
        (QUIET, Need(free_bytes=24 * GIB), 0.0, "24264 MiB free, 24576 MiB needed"),
        (QUIET, Need(power_limit_w=350.0), 0.0, "power limit is 250 W, not 350 W"),
        (replace(QUIET, throttle=0x4), Need(), 0.0, "it throttles (reasons 0x4)"),
        (QUIET, Need(load_average=1.3), 1.3, "load average is 1.30, the limit is 1.3"),
        (QUIET, Need(load_average=1.3), None, "the load average cannot be read"),
        (replace(QUIET, throttle=None), Need(must_read=("throttle",)), 0.0, "throttle cannot be read"),
        (replace(QUIET, pids=None), Need(must_read=("processes",)), 0.0, "processes cannot be read"),
    ],
)
def test_unfit(state: GpuState, need: Need, load: float | None, words: str) -> None:
    """Each thing that spoils numbers is named."""
    assert unfit_reasons(state, need, load) == [words]
    with pytest.raises(GpuUnfitError, match="not fit for a run"):
        require_fit(state, need, load)


def test_unreadable_readings_may_be_tolerated() -> None:
    """What a profile does not insist on may be unreadable: a virtualised driver cannot give all."""
    nothing = parse_state({}, None, None)
    assert unfit_reasons(nothing, Need(free_bytes=GIB, power_limit_w=250.0), 0.0) == []


def test_own_processes_are_not_foreign() -> None:
    """The run's own server does not make the GPU unfit."""
    assert unfit_reasons(replace(QUIET, pids=(7,)), Need(), 0.0, own=(7,)) == []


def test_recorded_without_process_numbers() -> None:
    """Conditions carry how many processes there were, not which."""
    assert replace(QUIET, pids=(7, 9)).recorded()["gpu_pids"] == 2


def fake_smi(folder: Path, source: str) -> dict[str, str]:
    """A PATH on which nvidia-smi is this Python source."""
    folder.mkdir()
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!{sys.executable}\nimport sys\n{source}\n")
    tool.chmod(0o755)
    return {"PATH": str(folder)}


def test_older_field_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that does not know the newer throttle field is asked by the older name."""
    source = (
        "asked = ' '.join(sys.argv)\n"
        "if 'clocks_event' in asked: sys.exit(2)\n"
        "elif 'throttle' in asked: print('0x0000000000000004')\n"
        "elif 'compute-apps' in asked: print('GPU-1, 77\\nGPU-2, 78')\n"
        f"else: print({', '.join(ANSWER.values())!r})\n"
    )
    monkeypatch.setenv("PATH", fake_smi(tmp_path / "bin", source)["PATH"])
    state = read_state()
    assert (state.throttle, state.pids, state.driver) == (4, (77,), "610.43.02")


@pytest.mark.parametrize("source", ["sys.exit(9)", "print('garbage, line')", "print()"])
def test_broken_driver_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """A driver that fails or says something else gives None, not zeros."""
    monkeypatch.setenv("PATH", fake_smi(tmp_path / "bin", source)["PATH"])
    state = read_state()
    assert (state.used_bytes, state.name) == (None, None)


@pytest.mark.parametrize(
    ("visible", "asked"),
    [(None, "0"), ("", "0"), ("1", "1"), ("3,1", "3"), ("GPU-5e1f", "GPU-5e1f")],
)
def test_the_visible_gpu_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, asked: str
) -> None:
    """Where several GPUs are, the state is that of the one that this process would take."""
    source = f"print({', '.join(ANSWER.values())!r} if sys.argv[2] == {asked!r} else '')"
    monkeypatch.setenv("PATH", fake_smi(tmp_path / "bin", source)["PATH"])
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert first_visible() == asked
    assert read_state().uuid == "GPU-1"


def test_no_driver_reads_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without nvidia-smi everything is None, processes included."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert compute_pids(None, 0) is None
    assert set(vars(read_state()).values()) == {None}


def test_lease_is_exclusive(tmp_path: Path) -> None:
    """A second run is told who holds the GPU; another GPU is free; afterwards it can be had."""
    with lease("GPU-1", tmp_path, "memory boots"):
        with (
            pytest.raises(GpuBusyError, match=rf"pid {os.getpid()}: memory boots"),
            lease("GPU-1", tmp_path, "x"),
        ):
            pass
        with lease("GPU-2", tmp_path, "x"):
            pass
    with lease("GPU-1", tmp_path, "x"):
        pass


def test_killed_holder_leaves_no_lease(tmp_path: Path) -> None:
    """After kill -9 of its holder the GPU can be had at once."""
    source = (
        f"import sys, time; sys.path.insert(0, {str(ROOT)!r})\n"
        "from pathlib import Path\nfrom ci.lanes.gpu import lease\n"
        f"with lease('GPU-1', Path({str(tmp_path)!r}), 'killed'):\n    print(flush=True); time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    with pytest.raises(GpuBusyError), lease("GPU-1", tmp_path, "x"):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    begun = time.monotonic()
    with lease("GPU-1", tmp_path, "x", wait_s=5):
        assert time.monotonic() - begun < 5
