from __future__ import annotations

import subprocess
from typing import Any

import pytest

from ci.lanes import conditions
from ci.lanes.conditions import Gpu, GpuQueryError, environment_of, lane_of, parse_gpus, read_conditions


@pytest.mark.parametrize(
    ("name", "lane"),
    [
        (None, "cpu"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("GeForce RTX 3090", "rtx3090"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA GeForce RTX 3090 Ti", "rtx-3090-ti"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090-laptop-gpu"),
        ("NVIDIA H200 NVL", "h200-nvl"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("NVIDIA", "unnamed-gpu"),
    ],
)
def test_a_card_has_its_lane_and_its_cousins_have_others(name: str | None, lane: str) -> None:
    """Only the very card of a lane is that lane; every other card gets a lane of its own name."""
    assert lane_of(name) == lane


def test_a_plain_answer_is_read_with_its_units() -> None:
    """Name, driver and the power limit in watts come out as nvidia-smi wrote them."""
    assert parse_gpus("NVIDIA GeForce RTX 3090, 550.54.14, 250.00\n") == [
        Gpu("NVIDIA GeForce RTX 3090", "550.54.14", 250.0)
    ]


def test_several_gpus_keep_their_order() -> None:
    """The first GPU listed is the one that decides the lane."""
    text = "NVIDIA H200, 570.86.15, 700.00\nNVIDIA H200, 570.86.15, 650.00\n\n"
    assert [gpu.power_limit_w for gpu in parse_gpus(text)] == [700.0, 650.0]


@pytest.mark.parametrize("power", ["[N/A]", "[Not Supported]", "N/A", "", "[Unknown Error]", "many"])
def test_an_unreadable_power_limit_is_none(power: str) -> None:
    """A limit that the driver does not tell is None, which is not the same as 0 W."""
    assert parse_gpus(f"NVIDIA GeForce RTX 4090, 560.35.03, {power}\n")[0].power_limit_w is None


@pytest.mark.parametrize(
    "text", ["No devices were found\n", "NVIDIA H200, 570.86.15\n", ", 570.86.15, 700.00\n"]
)
def test_another_answer_than_asked_for_is_an_error(text: str) -> None:
    """A line without the three fields is named and never read as a GPU."""
    with pytest.raises(GpuQueryError, match="unexpected line"):
        parse_gpus(text)


@pytest.mark.parametrize(
    ("kernel", "env", "marks", "expected"),
    [
        ("6.8.0-45-generic", {}, False, "native"),
        ("5.15.153.1-microsoft-standard-WSL2", {}, False, "wsl2"),
        ("5.15.153.1-microsoft-standard-WSL2", {}, True, "wsl2"),
        ("6.8.0", {"WSL_DISTRO_NAME": "Ubuntu"}, False, "wsl2"),
        ("6.8.0", {}, True, "container"),
        ("6.8.0", {"container": "podman"}, False, "container"),
    ],
)
def test_the_environment_is_told_from_its_marks(
    kernel: str, env: dict[str, str], marks: bool, expected: str
) -> None:
    """WSL2 wins over a container in it, since the driver path is WSL2's."""
    assert environment_of(kernel, env, marks) == expected


def _smi(monkeypatch: pytest.MonkeyPatch, outcome: subprocess.CompletedProcess[str] | Exception) -> None:
    def run(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("ci.lanes.conditions.shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("ci.lanes.conditions.subprocess.run", run)


def test_no_driver_is_the_cpu_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """nvidia-smi without a driver behind it means that no GPU can be used."""
    _smi(monkeypatch, subprocess.CompletedProcess([], 9, "NVIDIA-SMI has failed because ...\n", ""))
    assert conditions.detect_lane() == "cpu"


def test_a_usable_gpu_decides_the_lane_and_the_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lane and the GPU conditions come from the same answer."""
    _smi(monkeypatch, subprocess.CompletedProcess([], 0, "NVIDIA GeForce RTX 4090, 560.35.03, 450.00\n", ""))
    assert conditions.detect_lane() == "rtx4090"
    read = read_conditions("rtx4090", vllm="0.27.1")
    assert (read["gpu"], read["driver"], read["power_limit_w"]) == (
        "NVIDIA GeForce RTX 4090",
        "560.35.03",
        450.0,
    )
    assert read["vllm"] == "0.27.1"


def test_hidden_gpus_are_the_cpu_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA_VISIBLE_DEVICES="" hides every GPU from the suites, so it hides them from the lane too."""
    _smi(monkeypatch, subprocess.CompletedProcess([], 0, "NVIDIA H200, 570.86.15, 700.00\n", ""))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert conditions.detect_lane() == "cpu"


def test_a_hung_driver_is_an_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that never answers does not silently turn a GPU machine into the CPU lane."""
    _smi(monkeypatch, subprocess.TimeoutExpired("nvidia-smi", 15))
    with pytest.raises(GpuQueryError) as caught:
        conditions.detect_lane()
    assert caught.value.remedy is not None
    assert "--lane cpu" in caught.value.remedy


def test_the_cpu_lane_asks_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU lane the GPU conditions are None, whatever card the machine has."""
    _smi(monkeypatch, RuntimeError("asked"))
    read = read_conditions("cpu")
    assert [read[name] for name in ("gpu", "driver", "power_limit_w")] == [None, None, None]
    assert read["lane"] == "cpu"


def test_a_distribution_that_is_not_installed_has_no_version() -> None:
    """A missing torch is None in the conditions."""
    assert conditions.installed_version("no-such-distribution-here") is None
