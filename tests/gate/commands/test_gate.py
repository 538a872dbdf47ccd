from __future__ import annotations

from pathlib import Path

import pytest

from ci import cli
from ci.commands import gate
from ci.commands.gate import planned_suites
from ci.commands.review import Rules
from ci.errors import ExitCode, UsageError
from ci.gate.plan import Plan, PlannedMetric
from ci.gate.policy import Policy

METRIC = (PlannedMetric("grid", "violations", False),)
PLAN = Plan(
    Path("plan.toml"), {("cpu", "property"): METRIC, ("cpu", "pool"): METRIC, ("h200", "oracle"): METRIC}
)


def test_the_gate_runs_what_is_planned() -> None:
    """The suites of a lane are those of the plan, in its order; there is no second list."""
    assert planned_suites(PLAN, "cpu") == ("property", "pool")


def test_a_lane_without_a_plan_is_no_pass() -> None:
    """A lane that the plan does not know has no verdict, and the message lists those that it knows."""
    with pytest.raises(UsageError) as caught:
        planned_suites(PLAN, "rtx3090")
    assert "cpu, h200" in str(caught.value)


def test_a_lane_with_a_gpu_is_not_gated_without_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing runs, and nothing is called regressed."""
    rules = Rules(tmp_path / "baselines", PLAN, Policy(Path("policy.toml"), ()), ())
    monkeypatch.setattr(gate.review, "load_rules", lambda folder: rules)
    monkeypatch.setattr("ci.commands.run.detect_lane", lambda: "cpu")
    monkeypatch.setattr(gate, "run_suites", lambda args, suites: pytest.fail("it ran"))
    assert cli.main(["gate", "--lane", "h200"], [gate]) == 2


def test_the_verdict_covers_all_that_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After the runs every suite planned, measured or accepted on the lane is judged."""
    (tmp_path / "runs" / "cpu" / "leftover").mkdir(parents=True)
    ran: list[object] = []
    judged: list[Path] = []

    def conclude_all(folders: list[Path], *_: Path) -> ExitCode:
        judged.extend(folders)
        return ExitCode.REGRESSED

    rules = Rules(tmp_path / "baselines", PLAN, Policy(Path("policy.toml"), ()), ())
    monkeypatch.setenv("FORKPROOF_OUT", str(tmp_path))
    monkeypatch.setattr(gate.review, "load_rules", lambda folder: rules)
    monkeypatch.setattr(gate, "run_suites", lambda args, suites: ran.extend(suites))
    monkeypatch.setattr(gate, "conclude_all", conclude_all)
    assert cli.main(["gate"], [gate]) == 1
    assert ran == [("property", "cpu"), ("pool", "cpu")]
    assert [folder.name for folder in judged] == ["property", "pool", "leftover"]
