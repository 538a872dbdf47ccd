from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci import cli
from ci.commands import run
from ci.commands.run import choose_lanes, flavour_on, parse_flags, provenance
from ci.errors import ExitCode, UsageError
from ci.gate.plan import Plan, PlannedMetric
from ci.lanes.run import SuiteJob
from ci.stack.arms import Arm
from ci.stack.manifest import ArmManifest, FilePair, PatchEntry
from ci.stack.record import Flavour

METRIC = (PlannedMetric("grid", "violations", False),)
WHOLE = "the last arm of the series"
PLAN = Plan(
    Path("plan.toml"),
    {("cpu", "property"): METRIC, ("cpu", "oracle"): METRIC, ("rtx3090", "oracle"): METRIC},
)
MANIFEST = ArmManifest(
    schema=1,
    arm="mq3d",
    vllm="0.27.1",
    wheel_sha256="aa",
    flavour="lean",
    series_hash="bb" * 32,
    patches=[PatchEntry("one.patch", "cc", "dd")],
    files={"vllm/envs.py": FilePair("11", "22"), "vllm/old.py": FilePair("33", None)},
    offsets=[],
)


@pytest.mark.parametrize(
    ("machine", "lanes"),
    [
        ("cpu", [("property", "cpu"), ("oracle", "cpu"), ("unplanned", "cpu")]),
        ("rtx3090", [("property", "cpu"), ("oracle", "rtx3090"), ("unplanned", "rtx3090")]),
        ("a100", [("property", "cpu"), ("oracle", "cpu"), ("unplanned", "a100")]),
    ],
)
def test_a_suite_runs_where_it_is_planned(
    machine: str, lanes: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suite planned only for the CPU runs there on every machine; others take the machine's lane."""
    monkeypatch.setattr(run, "detect_lane", lambda: machine)
    assert choose_lanes([suite for suite, _ in lanes] * 2, None, PLAN) == lanes


def test_the_lane_asked_for_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--lane` decides alone, planned or not, but only with a name that can be part of a path."""
    monkeypatch.setattr(run, "detect_lane", lambda: "h200")
    assert choose_lanes(["property"], "cpu", PLAN) == [("property", "cpu")]
    assert choose_lanes(["property"], "h200", PLAN) == [("property", "h200")]
    for name in ("../cpu", "", "CPU"):
        with pytest.raises(UsageError, match="--lane"):
            choose_lanes(["property"], name, PLAN)


@pytest.mark.parametrize("lane", ["rtx3090", "a-lane-of-yours"])
def test_a_lane_with_a_gpu_is_not_run_without_one(lane: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its suites would fail here, and that is no regression of the patches."""
    monkeypatch.setattr(run, "detect_lane", lambda: "cpu")
    with pytest.raises(UsageError, match="this machine shows no GPU") as caught:
        choose_lanes(["property"], lane, PLAN)
    assert f"nox -s doctor -- --lane {lane}" in str(caught.value)


def test_flags_are_read_as_they_will_be_set() -> None:
    """The value may hold equal signs or nothing; a flag without `=` or given twice is an error."""
    assert parse_flags(["VLLM_INT4_MQ_3D=1", "A=b=c", "EMPTY="]) == {
        "VLLM_INT4_MQ_3D": "1",
        "A": "b=c",
        "EMPTY": "",
    }
    for bad in (["VLLM_INT4_MQ_3D"], ["=1"], ["A B=1"], ["A=1", "A=2"]):
        with pytest.raises(UsageError, match="--flag"):
            parse_flags(bad)


def test_provenance_names_all_that_makes_the_arm() -> None:
    """Wheel, flavour, each patch and each file that differs from stock are named, removed files too."""
    assert provenance(MANIFEST) == {
        "wheel": "aa",
        "flavour": "lean",
        "patch:one.patch": "cc",
        "file:vllm/envs.py": "22",
        "file:vllm/old.py": "removed",
    }


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[SuiteJob]:
    """The jobs that were started, with arms, pytest and judging replaced."""
    jobs: list[SuiteJob] = []

    def find_arms_up_to(name: str | None, *_: Any, **__: Any) -> list[Arm]:
        return [Arm(one, tmp_path / one, MANIFEST) for one in ("stock", name or WHOLE)]

    def conclude_all(folders: list[Path], *_: Path) -> ExitCode:
        print("judged", *(folder.name for folder in folders))
        return ExitCode.NO_VERDICT

    def run_suite(job: SuiteJob) -> int:
        jobs.append(job)
        return 4 if job.suite == "property" else 0

    monkeypatch.setenv("FORKPROOF_OUT", str(tmp_path / "out"))
    monkeypatch.setattr(run.review, "load_rules", lambda folder: SimpleNamespace(plan=PLAN))
    monkeypatch.setattr(run, "check_suite", lambda name: None)
    monkeypatch.setattr(run, "check_environment", lambda: None)
    monkeypatch.setattr(run, "find_arms_up_to", find_arms_up_to)
    monkeypatch.setattr(run, "run_suite", run_suite)
    monkeypatch.setattr(run, "conclude_all", conclude_all)
    return jobs


def test_a_suite_that_dies_keeps_no_other_from_running(
    started: list[SuiteJob], capsys: pytest.CaptureFixture[str]
) -> None:
    """The second suite runs after the first broke, and both are judged together at the end."""
    line = "run property oracle --lane cpu --arm mq3d -n 3 --flag VLLM_INT4_MQ_3D=1 --mutate seq-rows"
    assert cli.main(line.split(), [run]) == 2
    assert [job.suite for job in started] == ["property", "oracle"]
    assert all(job.workers == 3 and job.pytest_args == ("--mutate", "seq-rows") for job in started)
    assert all(job.subject.flags == {"VLLM_INT4_MQ_3D": "1"} and job.subject.arm == "mq3d" for job in started)
    assert all(list(job.arm_roots) == ["stock", "mq3d"] for job in started)
    assert [job.run_dir.parts[-3:] for job in started] == [
        ("runs", "cpu", "property"),
        ("runs", "cpu", "oracle"),
    ]
    assert capsys.readouterr().out.splitlines()[-1] == "judged property oracle"


def test_without_a_name_the_whole_series_is_run(started: list[SuiteJob]) -> None:
    """The default names no arm: which one is last is the series' to say."""
    cli.main(["run", "oracle", "--lane", "cpu"], [run])
    assert [job.subject.arm for job in started] == [WHOLE]


def test_the_head_of_a_run_tells_the_arm(started: list[SuiteJob]) -> None:
    """Series hash and provenance of the job are those of the arm's manifest."""
    args = argparse.Namespace(arm="mq3d", series=None, flag=[], workers=None, rest=[], flavour=None)
    run.run_suites(args, [("oracle", "h200")])
    assert started[0].subject.series_hash == MANIFEST.series_hash
    assert started[0].provenance == provenance(MANIFEST)
    assert started[0].workers == 1


@pytest.mark.parametrize("extra", [["--arm", "mq3d"], ["--series", "x"]])
def test_an_installed_tree_and_an_arm_exclude_each_other(
    extra: list[str], started: list[SuiteJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable left in a shell never decides which of two is judged."""
    monkeypatch.setattr(run, "installed_arm", lambda: Arm("installed", Path("/x"), MANIFEST))
    assert cli.main(["run", "property", "--lane", "cpu", *extra], [run]) == 2
    assert started == []


def test_an_installed_tree_is_announced(
    started: list[SuiteJob], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Alone it is judged, and that is said first."""
    monkeypatch.setattr(run, "installed_arm", lambda: Arm("installed", Path("/x"), MANIFEST))
    cli.main(["run", "property", "--lane", "cpu"], [run])
    assert [job.subject.arm for job in started] == ["installed"]
    assert capsys.readouterr().out.startswith("note: VLLM_ROOT is set: /x is judged")


def test_a_place_for_rows_is_checked_before_the_run(
    started: list[SuiteJob], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A path that cannot be written stops at once; an older file does not outlive a run without records."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ORACLE_OUT", str(tmp_path / "file" / "rows.jsonl"))
    assert cli.main(["run", "oracle", "--lane", "cpu"], [run]) == 2
    assert started == []
    old = tmp_path / "rows.jsonl"
    old.write_text("of another run")
    monkeypatch.setenv("ORACLE_OUT", str(old))
    cli.main(["run", "oracle", "--lane", "cpu"], [run])
    assert not old.exists()


def test_a_suite_of_gpu_lanes_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU it is not regressed: it is not planned here."""
    monkeypatch.setattr(run, "detect_lane", lambda: "cpu")
    plan = Plan(Path("plan.toml"), {("h200", "kernelbench"): METRIC, ("cpu", "property"): METRIC})
    with pytest.raises(UsageError, match="kernelbench is not planned on cpu"):
        choose_lanes(["kernelbench"], None, plan)


def test_flavour_of_a_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python files on the CPU, the whole wheel elsewhere, unless the machine has one flavour only."""
    monkeypatch.delenv(run.FLAVOUR_VARIABLE, raising=False)
    assert (flavour_on("cpu"), flavour_on("h200")) == (Flavour.LEAN, Flavour.FULL)
    monkeypatch.setenv(run.FLAVOUR_VARIABLE, "lean")
    assert flavour_on("h200") is Flavour.LEAN
    monkeypatch.setenv(run.FLAVOUR_VARIABLE, "light")
    with pytest.raises(UsageError, match="FORKPROOF_FLAVOUR=light is no flavour"):
        flavour_on("h200")
