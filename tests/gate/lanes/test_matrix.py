from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from ci.errors import UsageError
from ci.gate.plan import parse_plan
from ci.lanes.event import Event, EventKind
from ci.lanes.matrix import (
    MATRIX_FILE,
    EmptyMatrixError,
    Matrix,
    MatrixError,
    Where,
    Why,
    parse_matrix,
    plan_jobs,
    slug,
)

ROOT = Path(__file__).parents[3]
TEXT = MATRIX_FILE.read_text(encoding="utf-8")
OURS = parse_matrix(TEXT)
PATCHES = ("patches/one.patch",)


def pull(
    *, foreign: bool = False, label: str | None = "gpu", changed: tuple[str, ...] | None = PATCHES
) -> Event:
    """A pull request."""
    labels = frozenset() if label is None else frozenset({label})
    return Event(EventKind.PULL_REQUEST, foreign=foreign, labels=labels, changed=changed)


def lanes(event: Event, *chosen: str) -> set[str]:
    """Lanes that get a job."""
    return {cell.lane for cell in plan_jobs(OURS, event, chosen).cells}


def why(event: Event) -> dict[str, Why]:
    """The reason for each lane without a job."""
    return {out.lane: out.why for out in plan_jobs(OURS, event).left_out}


@pytest.mark.parametrize(
    ("event", "environment"),
    [
        (pull(), "gpu-runners"),
        (Event(EventKind.MANUAL), "gpu-runners"),
        (Event(EventKind.PUSH, changed=PATCHES), "gpu-main"),
        (Event(EventKind.SCHEDULE), "gpu-main"),
    ],
)
def test_only_what_main_has_runs_without_a_reviewer(event: Event, environment: str) -> None:
    """A branch waits for a person, whoever started the run; a night does not. Hosted machines have none."""
    cells = plan_jobs(OURS, event).cells
    assert {cell.environment for cell in cells if "self-hosted" in cell.runs_on} == {environment}
    assert {cell.environment for cell in cells if "self-hosted" not in cell.runs_on} <= {""}


@pytest.mark.parametrize("label", [None, "gpu"])
@pytest.mark.parametrize("changed", [None, PATCHES, ("README.md",)])
def test_a_fork_never_gets_a_machine_of_ours(label: str | None, changed: tuple[str, ...] | None) -> None:
    """Whatever it touches and whatever label it has: the CPU lane on a hosted runner, and no other."""
    plan = plan_jobs(OURS, pull(foreign=True, label=label, changed=changed))
    assert [cell.lane for cell in plan.cells] == ["cpu"]
    assert plan.of(Where.SELF_HOSTED) == ()
    assert not [cell for cell in plan.cells if "self-hosted" in cell.runs_on]
    reasons = {out.lane: out.why for out in plan.left_out}
    assert reasons["rtx3090"] is reasons["rtx4090"] is Why.NEEDS_MAINTAINER
    assert reasons["h200"] is Why.OTHER_EVENT


def test_a_pull_request_waits_for_its_label() -> None:
    """A GPU lane that is due says so, and runs once a maintainer added the label."""
    assert why(pull(label=None))["rtx3090"] is Why.NEEDS_LABEL
    assert lanes(pull()) == {"cpu", "rtx3090", "rtx4090"}
    assert why(pull(label="other"))["rtx3090"] is Why.NEEDS_LABEL


def test_a_change_that_no_kernel_sees_needs_no_gpu() -> None:
    """Only what a lane's numbers depend on asks for it; the CPU lane runs always."""
    assert lanes(pull(changed=("docs/policy.md", "ci/report/words.py"))) == {"cpu"}
    assert why(pull(changed=("docs/policy.md",)))["rtx3090"] is Why.UNTOUCHED
    assert lanes(pull(changed=("docs/policy.md", "ci/stack/apply.py"))) == {"cpu", "rtx3090", "rtx4090"}
    assert lanes(pull(changed=())) == {"cpu"}


def test_an_unknown_change_needs_every_lane() -> None:
    """Where git cannot tell what changed, nothing is left out for thrift."""
    assert lanes(Event(EventKind.PUSH)) == {"cpu", "rtx3090", "rtx4090"}
    assert lanes(Event(EventKind.SCHEDULE, changed=())) == {"cpu", "rtx3090", "rtx4090"}


def test_jobs_take_the_whole_series() -> None:
    """None of our jobs names an arm: a patch that is added at the end is gated at once."""
    for kind in EventKind:
        assert {cell.arm for cell in plan_jobs(OURS, Event(kind)).cells} == {""}


def test_a_manual_run_gets_what_it_chose() -> None:
    """One lane and one suite of it; the other lanes say that they were not chosen."""
    plan = plan_jobs(OURS, Event(EventKind.MANUAL), ["rtx3090"], ["oracle"])
    (cell,) = plan.cells
    assert (cell.lane, cell.suites, cell.environment) == ("rtx3090", "oracle", "gpu-runners")
    assert {out.lane: out.why for out in plan.left_out}["cpu"] is Why.NOT_CHOSEN


@pytest.mark.parametrize(("lane", "suite"), [("rtx2080", "oracle"), ("cpu", "orcale")])
def test_a_choice_that_does_not_exist_is_an_error(lane: str, suite: str) -> None:
    """A misspelt lane or suite is no empty matrix."""
    with pytest.raises(UsageError, match="the matrix has no"):
        plan_jobs(OURS, Event(EventKind.MANUAL), [lane], [suite])


def test_a_choice_without_any_job_is_an_error() -> None:
    """A lane that does not have the suite gives no jobs, which is said and not run as nothing."""
    with pytest.raises(EmptyMatrixError, match="has none of: kernelbench"):
        plan_jobs(OURS, Event(EventKind.MANUAL), ["cpu"], ["kernelbench"])


def test_a_job_may_have_fewer_events_than_its_lane() -> None:
    """What takes hours is due at night and by hand; a change waits for the rest alone."""

    every = {
        suite for lane in OURS.lane if lane.name == "rtx3090" for job in lane.job for suite in job.suites
    }

    def suites(kind: EventKind, *wanted: str) -> set[str]:
        plan = plan_jobs(OURS, Event(kind), ["rtx3090"], wanted)
        found = {suite for cell in plan.cells for suite in cell.suites.split()}
        assert {suite for lane, suite in plan.not_due if lane == "rtx3090"} == every - found
        return found

    assert "quality" not in suites(EventKind.PUSH)
    assert "throughput" in suites(EventKind.PUSH)
    assert "quality" in suites(EventKind.SCHEDULE)
    assert suites(EventKind.MANUAL, "quality") == {"quality"}
    with pytest.raises(EmptyMatrixError, match="has none of: quality"):
        suites(EventKind.PUSH, "quality")


def test_github_refuses_more_than_256_jobs() -> None:
    """So do we, before it."""
    cpu = OURS.lane[0]
    many = msgspec.structs.replace(cpu, job=cpu.job * 257)
    with pytest.raises(MatrixError, match="at most 256"):
        plan_jobs(Matrix(1, "gpu", "e", "m", (many,)), Event(EventKind.PUSH))


def test_every_planned_suite_has_a_lane_that_runs_it() -> None:
    """Nothing is planned in the baselines that no job measures, and every job's suite exists."""
    path = ROOT / "baselines" / "plan.toml"
    planned = set(parse_plan(path.read_text(encoding="utf-8"), path).suites)
    matrix = {(lane.name, suite) for lane in OURS.lane for job in lane.job for suite in job.suites}
    assert planned - matrix == set()
    assert {suite for _, suite in matrix} <= {path.name for path in (ROOT / "tests").iterdir()}


def test_profiles_of_the_lanes() -> None:
    """A lane's launch profiles are files of the engine, and each of those belongs to a lane."""
    there = {path.stem for path in (ROOT / "ci" / "engine" / "profiles").glob("*.toml")}
    assert {profile for lane in OURS.lane for profile in lane.profiles} == there


def test_every_path_that_asks_for_a_lane_exists() -> None:
    """A folder that was renamed would silently ask for nothing."""
    for lane in OURS.lane:
        for start in lane.touches:
            folder, _, name = start.rpartition("/")
            assert [p for p in (ROOT / folder).iterdir() if p.name.startswith(name)], start


def test_names_of_artifacts_are_unique_and_plain() -> None:
    """A suite or arm with a slash or colon cannot break an upload, nor can two cells share a name."""
    names = [cell.id for cell in plan_jobs(OURS, Event(EventKind.MANUAL)).cells]
    names += [slug("rtx3090", "a:b"), slug("rtx3090", "a/b"), slug("RTX3090", "a b"), slug("x" * 300)]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z0-9-]{1,80}", name)] == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("schema = 1", "schema = 2", "schema 2"),
        ('name = "rtx4090"', 'name = "rtx3090"', "stands twice"),
        ('name = "cpu"', 'name = "c p"', "a name has"),
        ('suites = ["oracle", "membudget", "census", "kernelbench"]', "suites = []", "a job has suites"),
        ("minutes = 90", "minutes = 0", "minutes are positive"),
        ('events = ["schedule", "manual"]\n', 'events = ["fortnight"]\n', "Invalid enum value"),
        (
            'touches = []\n\n[[lane.job]]\nsuites = ["oracle"',
            'touches = []\n\n[[lane.job]]\nevents = ["push"]\nsuites = ["oracle"',
            "events that its lane has not",
        ),
        ('runs_on = ["ubuntu-24.04"]', "runs_on = []", "may be empty"),
        ('"self-hosted", "linux", "x64", "rtx3090"', '"linux", "rtx3090"', "a lane with a GPU"),
        ('"manual"]', '"manual", "pull_request_target"]', "Invalid enum value"),
        ("touches = []", "touches = []\nretries = 3", "unknown field"),
        ("[[lane]]", "[[lane", "matrix.toml"),
    ],
)
def test_a_wrong_file_is_refused(old: str, new: str, problem: str) -> None:
    """Every mistake is an error that says what is wrong, and none a smaller matrix."""
    assert old in TEXT
    with pytest.raises(MatrixError, match=problem):
        parse_matrix(TEXT.replace(old, new, 1))
