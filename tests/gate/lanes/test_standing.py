from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ci.errors import ExitCode
from ci.lanes.event import EventKind
from ci.lanes.github import Artifact, Label, Pull, Repo, Run, Side
from ci.lanes.matrix import MATRIX_FILE, JobPlan, parse_matrix, plan_jobs
from ci.lanes.standing import (
    Standing,
    artifact_name,
    event_of,
    is_ours,
    lane_states,
    latest,
    newest_uploads,
    overall,
    plan_of_push,
    upload_of,
)

US, SHA = "us/it", "a1" * 20
MATRIX = parse_matrix(MATRIX_FILE.read_text(encoding="utf-8"))
CI = Run(1, "ci", SHA, "completed", 1, "pull_request", "success")
GPU = Run(2, "gpu", SHA, "completed", 1, "pull_request", "success")
RUNS = {"ci": CI, "gpu": GPU}
GOOD = dict.fromkeys(("cpu", "rtx3090", "rtx4090"), ExitCode.PASS)


def pull(source: str | None = US, *labels: str) -> Pull:
    """An open pull request."""
    repo = None if source is None else Repo(source)
    return Pull(7, "open", Side(SHA, repo), Side("b2" * 20, Repo(US)), tuple(Label(name) for name in labels))


def plan_of(request: Pull | None, changed: tuple[str, ...] | None = None) -> JobPlan:
    """What the commit should get."""
    return plan_jobs(MATRIX, event_of(request, US, changed))


def ids(plan: JobPlan) -> set[str]:
    """Every cell of it."""
    return {cell.id for cell in plan.cells}


def status(plan: JobPlan, **given: Any) -> tuple[Standing, str]:
    """The status of the commit, everything having come and passed unless given otherwise."""
    full: dict[str, Any] = {"runs": RUNS, "came": ids(plan), "codes": GOOD, **given}
    return overall(lane_states(plan, full["runs"], full["came"], full["codes"]))


def test_every_planned_lane_with_a_passing_verdict_is_green() -> None:
    """And the line names the lanes."""
    assert status(plan_of(pull(US, "gpu"))) == (Standing.SUCCESS, "cpu, rtx3090, rtx4090: pass")


def test_a_fork_is_never_red_for_the_lanes_it_cannot_have() -> None:
    """Nor green: its GPU lanes wait for a maintainer, and say so."""
    for source in ("them/it", None):
        standing, line = status(plan_of(pull(source, "gpu")))
        assert standing is Standing.PENDING
        assert "rtx3090: needs a maintainer" in line
        assert "cpu" not in line


def test_a_lane_that_is_due_waits_for_its_label() -> None:
    """A change that touches kernels is not green on the CPU lane alone; one that does not, is."""
    assert status(plan_of(pull(), ("patches/a.patch",)))[0] is Standing.PENDING
    assert status(plan_of(pull(), ("docs/a.md",)))[0] is Standing.SUCCESS


def test_a_lane_without_results_is_red() -> None:
    """Its job was cancelled or skipped, lost its runner, or never began: the workflow may be green."""
    plan = plan_of(pull(US, "gpu"))
    missing = {cell.id for cell in plan.cells if cell.lane != "rtx4090"}
    assert status(plan, came=missing) == (
        Standing.FAILURE,
        "rtx4090: missing: the workflow ended (success) without its results",
    )
    cancelled = {"ci": CI, "gpu": msgspec.structs.replace(GPU, conclusion="cancelled")}
    assert "(cancelled)" in status(plan, came=missing, runs=cancelled)[1]
    assert "no run on this commit" in status(plan, came=missing, runs={"ci": CI})[1]


def test_a_workflow_that_runs_is_waited_for() -> None:
    """Pending until it ends; a lane that is red already is not hidden by it."""
    plan = plan_of(pull(US, "gpu"))
    runs = {"ci": CI, "gpu": msgspec.structs.replace(GPU, status="in_progress", conclusion=None)}
    came = {cell.id for cell in plan.cells if cell.lane == "cpu"}
    assert status(plan, runs=runs, came=came)[0] is Standing.PENDING
    assert status(plan, runs=runs, came=came, codes={"cpu": ExitCode.REGRESSED})[0] is Standing.FAILURE


@pytest.mark.parametrize("code", [ExitCode.REGRESSED, ExitCode.NO_VERDICT, ExitCode.CONTROL_FAILED])
def test_any_verdict_but_pass_is_red(code: ExitCode) -> None:
    """Regressed, no verdict, and a control that stayed green."""
    assert status(plan_of(pull(US, "gpu")), codes={**GOOD, "rtx3090": code})[0] is Standing.FAILURE


def test_a_run_of_another_commit_is_stale() -> None:
    """Only runs of exactly this commit count, the newest of each measuring workflow."""
    old = msgspec.structs.replace(GPU, id=9, head_sha="c3" * 20)
    other = msgspec.structs.replace(CI, id=10, name="nightly")
    again = msgspec.structs.replace(CI, id=11)
    assert latest([again, old, other, CI, GPU], SHA) == {"ci": again, "gpu": GPU}


def test_a_run_of_another_label_hides_none() -> None:
    """Any label starts the workflow; a run that was skipped as a whole counts where there is no other."""
    label = msgspec.structs.replace(GPU, id=9, conclusion="skipped")
    assert latest([label, CI, GPU], SHA)["gpu"] == GPU
    assert latest([label, CI], SHA)["gpu"] == label


@pytest.mark.parametrize("event", ["workflow_dispatch", "schedule"])
def test_a_run_by_hand_is_for_whoever_started_it(event: str) -> None:
    """It may have one lane of many, and would turn the others red."""
    assert latest([msgspec.structs.replace(GPU, id=9, event=event), GPU], SHA) == {"gpu": GPU}


CELL = plan_of(None).cells[0]


def uploads(*attempts: int) -> list[Artifact]:
    """What the cell's job uploaded in these attempts."""
    return [Artifact(n, artifact_name(CELL, n), 10, expired=False) for n in attempts]


@pytest.mark.parametrize(
    ("attempt", "conclusion", "attempts", "found"),
    [
        (1, "success", (1,), 1),
        (2, "failure", (1, 2), 2),
        (2, "success", (1,), 1),
        (2, "failure", (1,), None),
        (2, "cancelled", (1,), None),
        (3, "success", (1, 2), 2),
        (1, "success", (2,), None),
        (1, "success", (), None),
    ],
)
def test_which_attempt_counts(
    attempt: int, conclusion: str, attempts: tuple[int, ...], found: int | None
) -> None:
    """The last one; an earlier one only where the run ended well without doing the job again."""
    run = msgspec.structs.replace(CI, run_attempt=attempt, conclusion=conclusion)
    upload = upload_of(CELL, run, uploads(*attempts))
    assert (upload.id if upload else None) == found


def test_of_a_chosen_run_the_last_uploads_are_taken() -> None:
    """One of each job, whatever else it uploaded."""
    other = [Artifact(7, "run-other-1", 10, expired=False), Artifact(8, "plan-3", 10, expired=False)]
    odd = [Artifact(9, "run-x-9999999999", 10, expired=False), Artifact(6, "run-x-²", 10, expired=False)]
    assert [one.id for one in newest_uploads([*uploads(1, 10, 9), *other, *odd])] == [10, 7]


def test_a_push_is_not_red_for_lanes_that_it_does_not_touch() -> None:
    """Its own run says which; one that did not end well says nothing, and leaves all of them due."""
    plan = plan_of(None)
    push = msgspec.structs.replace(GPU, event="push")
    left = plan_of_push(plan, push, {"Plan", "rtx4090"})
    assert {cell.lane for cell in left.cells} == {"cpu", "rtx4090"}
    assert "rtx3090" in {out.lane for out in left.left_out}
    for run in (None, msgspec.structs.replace(push, conclusion="cancelled")):
        assert plan_of_push(plan, run, set()) == plan


def test_a_lane_whose_label_is_older_than_the_commit_says_what_to_do() -> None:
    """A push takes no label off, and starts no run."""
    plan = plan_of(pull(US, "gpu"))
    line = status(plan, came=set(), codes={}, runs={"ci": CI})[1]
    assert "rtx3090: missing: no run on this commit; take its label off and add it again" in line


def test_nothing_planned_is_not_green() -> None:
    """An empty table is no success."""
    assert overall([])[0] is Standing.FAILURE


def test_a_commit_without_a_pull_request_is_a_push() -> None:
    """Every lane that a push gets is due."""
    assert event_of(None, US, None).kind is EventKind.PUSH
    assert {cell.lane for cell in plan_of(None).cells} == {"cpu", "rtx3090", "rtx4090"}


def test_whose_rules_a_commit_is_held_against() -> None:
    """A branch here brings its own; a fork never does, nor a commit that nobody pushed here."""
    push = msgspec.structs.replace(CI, event="push")
    assert is_ours(pull(US), RUNS, US)
    assert is_ours(None, {"ci": push}, US)
    assert not is_ours(None, RUNS, US)
    assert not is_ours(None, {}, US)
    for source in ("them/it", None):
        assert not is_ours(pull(source), {"ci": push}, US)


def test_a_new_contributor_s_run_waits_for_an_approval() -> None:
    """GitHub holds it back: that is nobody's failure, and no success."""
    held = {"ci": msgspec.structs.replace(CI, conclusion="action_required")}
    standing, line = status(plan_of(pull("them/it")), runs=held, came=set(), codes={})
    assert standing is Standing.PENDING
    assert "cpu: needs a maintainer" in line
