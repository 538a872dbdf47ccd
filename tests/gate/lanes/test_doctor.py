from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ci.lanes.doctor import GIB, Facts, Folder, ModelFolder, State, TorchFacts, examine, worst
from ci.lanes.gpu import GpuState
from ci.lanes.matrix import MATRIX_FILE, Lane, parse_matrix

LANES = {lane.name: lane for lane in parse_matrix(MATRIX_FILE.read_text(encoding="utf-8")).lane}
GPU = GpuState(
    uuid="GPU-1",
    name="NVIDIA GeForce RTX 3090",
    driver="580.1",
    total_bytes=24 * GIB,
    used_bytes=GIB // 2,
    sm_mhz=1695,
    memory_mhz=9751,
    power_limit_w=350.0,
    temperature_c=40,
    throttle=1,
    pids=(),
)
NO_GPU = GpuState(*([None] * 11))
GOOD = Facts(
    python=(3, 12),
    git=True,
    environment="native",
    root_user=False,
    sudo=False,
    load_average=0.1,
    gpu=GPU,
    cuda_driver="13.0",
    ecc_errors=None,
    xids=(),
    torch=TorchFacts("2.13.0", "13.0", 1, ("sm_80", "sm_86", "sm_90")),
    compiler=True,
    headers=True,
    cache=Folder("cache", "/c", True, 100 * GIB),
    folders=(Folder("runs", "out/runs", True, 100 * GIB),),
    models=(ModelFolder("FORKPROOF_MODEL", "/m"),),
    labels=(frozenset({"self-hosted", "linux", "x64", "rtx3090", "more"}),),
)


def states(facts: Facts, lane: Lane = LANES["rtx3090"]) -> dict[str, State]:
    """The state of each check that is not ok."""
    return {found.check: found.state for found in examine(facts, lane) if found.state is not State.OK}


def test_a_machine_that_is_fit_has_no_finding() -> None:
    """Every check is ok, and there is one line for each."""
    found = examine(GOOD, LANES["rtx3090"])
    assert [finding.check for finding in found if finding.state is not State.OK] == []
    assert len(found) >= 18
    assert worst(found) is State.OK


def test_the_cpu_lane_asks_nothing_of_a_gpu() -> None:
    """A laptop without one is fit."""
    laptop = dataclasses.replace(
        GOOD, gpu=NO_GPU, cuda_driver=None, torch=TorchFacts("2.13.0+cpu", None, 0, ())
    )
    assert states(laptop, LANES["cpu"]) == {}


def test_without_a_driver_one_line_says_so() -> None:
    """The driver and torch fail; nothing is claimed about a card that nobody can read."""
    broken = dataclasses.replace(
        GOOD, gpu=NO_GPU, cuda_driver=None, xids=None, torch=TorchFacts("2.13.0", "13.0", 0, ("sm_86",))
    )
    assert states(broken) == {"driver": State.FAIL, "torch": State.FAIL}


FAIL, WARN = State.FAIL, State.WARN


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"python": (3, 10)}, {"python": FAIL}),
        ({"python": (3, 15)}, {"python": FAIL}),
        ({"git": False}, {"git": FAIL}),
        ({"compiler": False}, {"compiler": FAIL}),
        ({"headers": False}, {"compiler": FAIL}),
        ({"root_user": True}, {"user": WARN}),
        ({"sudo": True}, {"user": WARN}),
        ({"sudo": None}, {}),
        ({"environment": "container"}, {"environment": WARN}),
        ({"environment": "wsl2"}, {}),
        ({"load_average": 8.0}, {"load": WARN}),
        ({"load_average": None}, {"load": WARN}),
        ({"cache": Folder("cache", "/c", False, 100 * GIB)}, {"cache": FAIL}),
        ({"cache": Folder("cache", "/c", True, 40 * GIB)}, {"disk": WARN}),
        ({"cache": Folder("cache", "/c", True, 20 * GIB)}, {"disk": FAIL}),
        ({"cache": Folder("cache", "/c", True, None)}, {"disk": WARN}),
        ({"cuda_driver": "12.4"}, {"cuda": FAIL}),
        ({"cuda_driver": None}, {"cuda": FAIL}),
        ({"torch": None}, {"torch": WARN}),
        ({"torch": TorchFacts("2.13.0+cpu", None, 0, ())}, {"torch": FAIL}),
        ({"torch": TorchFacts("", None, 0, (), error="no module")}, {"torch": FAIL}),
        ({"torch": TorchFacts("2.13.0", "13.0", 1, ("sm_90", "sm_100"))}, {"torch": FAIL}),
        ({"torch": TorchFacts("2.13.0", "13.0", 1, ("sm_80",))}, {}),
        ({"ecc_errors": 0}, {}),
        ({"ecc_errors": 3}, {"ecc": FAIL}),
        ({"xids": None}, {"xid": WARN}),
        ({"xids": ("NVRM: Xid (PCI:0000:01:00): 79",)}, {"xid": FAIL}),
        ({"labels": None}, {"runner": WARN}),
        ({"labels": ()}, {"runner": WARN}),
        ({"labels": (frozenset({"self-hosted", "rtx4090"}),)}, {"runner": WARN}),
        ({"labels": (), "runner": "box"}, {}),
        ({"models": (ModelFolder("FORKPROOF_MODEL", None),)}, {"model FORKPROOF_MODEL": WARN}),
        ({"models": (ModelFolder("FORKPROOF_MODEL", "/m", ("a",)),)}, {"model FORKPROOF_MODEL": FAIL}),
    ],
)
def test_each_fault_is_one_finding(change: dict[str, Any], expected: dict[str, State]) -> None:
    """What is wrong turns its own line, and no other."""
    assert states(dataclasses.replace(GOOD, **change)) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": "NVIDIA GeForce RTX 4090"}, {"driver": FAIL}),
        ({"used_bytes": 3 * GIB}, {"gpu memory": FAIL}),
        ({"used_bytes": None}, {"gpu memory": FAIL}),
        ({"pids": (7,)}, {"gpu processes": FAIL}),
        ({"pids": None}, {"gpu processes": WARN}),
        ({"throttle": 0x4}, {"clocks": WARN}),
        ({"throttle": None}, {"clocks": WARN}),
        ({"power_limit_w": None}, {"power limit": WARN}),
    ],
)
def test_each_fault_of_the_card_is_one_finding(change: dict[str, Any], expected: dict[str, State]) -> None:
    """Another card than the lane's, a card in use, a card that throttles."""
    assert states(dataclasses.replace(GOOD, gpu=dataclasses.replace(GPU, **change))) == expected


def test_what_is_not_ok_has_a_remedy() -> None:
    """Every warn and fail of a machine where all is wrong says what mends it."""
    wrong = dataclasses.replace(
        GOOD,
        python=(3, 9),
        git=False,
        root_user=True,
        environment="container",
        load_average=9.0,
        gpu=dataclasses.replace(GPU, used_bytes=20 * GIB, pids=(1,), throttle=4, power_limit_w=None),
        cuda_driver="11.0",
        ecc_errors=1,
        xids=("Xid",),
        torch=TorchFacts("2.13.0", "13.0", 0, ()),
        compiler=True,
        headers=True,
        cache=Folder("cache", "/c", False, 0),
        models=(ModelFolder("FORKPROOF_MODEL", None),),
        labels=(),
    )
    found = [finding for finding in examine(wrong, LANES["rtx3090"]) if finding.state is not State.OK]
    assert len(found) >= 16
    assert [finding.check for finding in found if not finding.remedy] == []


@pytest.mark.parametrize(("used", "state"), [(1, None), (3, WARN), (6, FAIL)])
def test_windows_keeps_a_part_of_the_card(used: int, state: State | None) -> None:
    """Its desktop is a warning under WSL2, where nothing can take it away; more than that is not."""
    wsl = dataclasses.replace(GOOD, environment="wsl2", gpu=dataclasses.replace(GPU, used_bytes=used * GIB))
    assert states(wsl) == ({} if state is None else {"gpu memory": state})
