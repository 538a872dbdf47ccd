"""How a commit stands: what was planned for it, held against what came.  Pure."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ci.errors import ExitCode
from ci.lanes.event import Event, EventKind
from ci.lanes.github import Artifact, Pull, Run
from ci.lanes.matrix import Cell, JobPlan, LeftOut, Why

WORKFLOWS = ("ci", "gpu")
"""The workflows whose runs measure."""
PLANNED_EVENTS = ("pull_request", "push")
"""What a commit's plan is about: a run that somebody starts by hand has a part of it, for that person."""
MAX_DIGITS = 6
"""Of an attempt's number in an upload's name."""
DUE = (Why.NEEDS_LABEL, Why.NEEDS_MAINTAINER)
"""Reasons for which somebody still has to act."""


class Standing(enum.Enum):
    """GitHub's words for the status of a commit."""

    SUCCESS = "success"
    PENDING = "pending"
    FAILURE = "failure"


@dataclass(frozen=True)
class LaneState:
    """One lane of one commit."""

    lane: str
    standing: Standing
    text: str


def event_of(pull: Pull | None, repository: str, changed: tuple[str, ...] | None) -> Event:
    """The event that a commit's runs answered, as GitHub's interface tells it and no artifact does."""
    if pull is None:
        return Event(EventKind.PUSH, changed=changed)
    labels = frozenset(label.name for label in pull.labels)
    foreign = is_foreign(pull, repository)
    return Event(EventKind.PULL_REQUEST, foreign=foreign, labels=labels, changed=changed)


def is_foreign(pull: Pull, repository: str) -> bool:
    """Whether a pull request's code is a stranger's; a fork that was deleted is one, too."""
    return pull.head.repo is None or pull.head.repo.full_name != repository


def is_ours(pull: Pull | None, runs: Mapping[str, Run], repository: str) -> bool:
    """Whether a commit may bring the rules that it is held against: one of a branch here.

    GitHub serves a fork's commits under our name as well; so without a pull request,
    only a push counts, which nobody can do from elsewhere.
    """
    if pull is not None:
        return not is_foreign(pull, repository)
    return any(run.event == "push" for run in runs.values())


def latest(runs: Sequence[Run], commit: str) -> dict[str, Run]:
    """The newest run of each measuring workflow on exactly this commit: anything older is stale.

    A run that was skipped as a whole (any label starts one) is no attempt, and hides none.
    """
    found: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: (run.conclusion != "skipped", run.id)):
        if run.name in WORKFLOWS and run.head_sha == commit and run.event in PLANNED_EVENTS:
            found[run.name] = run
    return found


def artifact_name(cell: Cell, attempt: int) -> str:
    """What the cell's job calls its upload, as the workflows write it."""
    return f"run-{cell.id}-{attempt}"


def upload_of(cell: Cell, run: Run, uploads: Sequence[Artifact]) -> Artifact | None:
    """The upload of the cell's last attempt.

    "Re-run failed jobs" leaves the good ones alone, so a run that ended well may have
    uploads of earlier attempts; in any other run they are stale.
    """
    earliest = 1 if run.conclusion == "success" else run.run_attempt
    named = {one.name: one for one in uploads}
    attempts = range(run.run_attempt, earliest - 1, -1)
    return next((named[name] for n in attempts if (name := artifact_name(cell, n)) in named), None)


def newest_uploads(uploads: Sequence[Artifact]) -> list[Artifact]:
    """The last attempt's upload of each job of a run that somebody chose."""
    newest: dict[str, tuple[int, Artifact]] = {}
    for one in uploads:
        name, _, attempt = one.name.rpartition("-")
        if name.startswith("run-") and attempt.isdecimal() and len(attempt) < MAX_DIGITS:
            newest[name] = max(newest.get(name, (0, one)), (int(attempt), one), key=lambda pair: pair[0])
    return [one for _, one in newest.values()]


def plan_of_push(plan: JobPlan, run: Run | None, jobs: Collection[str]) -> JobPlan:
    """The plan of a commit on main, less what its own run left out.

    Only the run knows what the push changed; it is main's own code that says so.

    Args:
        plan: what a push gets that touches everything.
        run: the commit's run on our machines.
        jobs: names of its jobs, which are those of the lanes.
    """
    if run is None or run.conclusion != "success":
        return plan
    out = [cell for cell in plan.cells if cell.environment and cell.lane not in jobs]
    untouched = (LeftOut(cell.lane, Why.UNTOUCHED, "was left out by the run on this push") for cell in out)
    left = tuple(cell for cell in plan.cells if cell not in out)
    return replace(plan, cells=left, left_out=(*plan.left_out, *untouched))


def lane_states(
    plan: JobPlan, runs: Mapping[str, Run], came: Collection[str], codes: Mapping[str, ExitCode]
) -> list[LaneState]:
    """How each lane stands.

    Args:
        plan: what the commit should get.
        runs: the newest run of each workflow.
        came: identifiers of cells whose results were unpacked.
        codes: verdict of each lane that has results.
    """
    states = [_cell_state(cell, runs, came, codes) for cell in plan.cells]
    for out in plan.left_out:
        if out.why in DUE:
            states.append(LaneState(out.lane, Standing.PENDING, f"{out.why.value}: {out.reason}"))
    return states


def _cell_state(
    cell: Cell, runs: Mapping[str, Run], came: Collection[str], codes: Mapping[str, ExitCode]
) -> LaneState:
    run = runs.get("gpu" if cell.environment else "ci")
    if cell.id in came and cell.lane in codes:
        code = codes[cell.lane]
        good = code is ExitCode.PASS
        text = "pass" if good else f"verdict with exit code {int(code)}"
        return LaneState(cell.lane, Standing.SUCCESS if good else Standing.FAILURE, text)
    if run is not None and run.status != "completed":
        return LaneState(cell.lane, Standing.PENDING, f"the workflow is {run.status.replace('_', ' ')}")
    if run is None:
        remedy = "; take its label off and add it again" if cell.environment else ""
        return LaneState(cell.lane, Standing.FAILURE, f"missing: no run on this commit{remedy}")
    if run.conclusion == "action_required":
        why = f"{Why.NEEDS_MAINTAINER.value}: the workflow of a new contributor waits for an approval"
        return LaneState(cell.lane, Standing.PENDING, why)
    ended = run.conclusion or "unknown"
    return LaneState(
        cell.lane, Standing.FAILURE, f"missing: the workflow ended ({ended}) without its results"
    )


def overall(states: Sequence[LaneState]) -> tuple[Standing, str]:
    """The status of the commit, and its one line; no lane at all is no success."""
    if not states:
        return Standing.FAILURE, "no lane was planned"
    for standing in (Standing.FAILURE, Standing.PENDING):
        bad = [state for state in states if state.standing is standing]
        if bad:
            # A lane may have several jobs, which often say the same.
            return standing, "; ".join(dict.fromkeys(f"{state.lane}: {state.text}" for state in bad))
    return Standing.SUCCESS, f"{', '.join(dict.fromkeys(state.lane for state in states))}: pass"
