from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ci.gate.plan import parse_plan
from ci.lanes.event import Event, EventKind
from ci.lanes.matrix import parse_matrix, plan_jobs
from ci.rehearsal import stage
from ci.rehearsal.stage import StageError, change, copy_checkout, pins, write_actions, write_programs
from ci.rehearsal.world import LANES, SUITE
from ci.results.jsonl import read_baseline


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stage."""
    folder = tmp_path_factory.mktemp("rehearsal") / "stage"
    copy_checkout(folder)
    return folder


def test_every_lane_runs_the_one_suite(copied: Path) -> None:
    """Plan, matrix and baselines of the stage agree: one suite on each of three lanes."""
    plan = parse_plan((copied / "baselines/plan.toml").read_text("utf-8"), Path("plan.toml"))
    assert set(plan.suites) == {(lane, SUITE) for lane in LANES}
    matrix = parse_matrix((copied / "ci/lanes/matrix.toml").read_text("utf-8"))
    assert {cell.suites for cell in plan_jobs(matrix, Event(EventKind.PUSH)).cells} == {SUITE}
    for lane in LANES:
        assert read_baseline(copied / "baselines" / lane / f"{SUITE}.jsonl").head.conditions["lane"] == lane


def test_the_workflows_of_the_stage_are_ours(copied: Path) -> None:
    """But for what the interpreter does not know; a difference of any other line would be no rehearsal."""
    for ours in sorted((stage.ROOT / ".github/workflows").glob("*.yml")):
        lines = ours.read_text("utf-8").splitlines()
        there = (copied / ".github/workflows" / ours.name).read_text("utf-8").splitlines()
        assert [line for line in there if line not in lines] == []
        assert len(lines) - len(there) == (1 if ours.name in {"gpu.yml", "report.yml"} else 0)


def test_every_action_has_a_pin_and_those_of_a_rehearsal_a_stand_in(copied: Path, tmp_path: Path) -> None:
    """Whatever the rehearsed workflows use is either replaced or our own."""
    names = {pin.partition("@")[0] for pin in pins(copied)}
    stand_ins = write_actions(tmp_path)
    assert set(stand_ins) <= names
    rehearsed = "".join(
        (copied / f".github/workflows/{name}.yml").read_text("utf-8") for name in ("ci", "gpu", "report")
    )
    assert {name for name in names if f"{name}@" in rehearsed} == set(stand_ins)


def test_our_programs_stand_first(tmp_path: Path) -> None:
    """nox and gh of a rehearsal are found before the real ones."""
    write_programs(tmp_path / "bin")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for name in ("nox", "gh"):
        found = subprocess.run(
            ["sh", "-c", f"command -v {name}"], env={"PATH": path}, capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == str(tmp_path / "bin" / name)


def test_a_change_that_changes_nothing_is_an_error(tmp_path: Path) -> None:
    """A stage that silently keeps what it should replace rehearses something else."""
    file = tmp_path / "a.yml"
    file.write_text("a: 1\n")
    with pytest.raises(StageError):
        change(file, "b: ", "c: ")
