"""How a commit stands: what was planned for it, held against what came.  Pure."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ci.errors import ExitCode
from ci.lanes.event import Event, EventKind
from ci.lanes.github import Pull, Run
from ci.lanes.matrix import Cell, JobPlan, Why

WORKFLOWS = ("ci", "gpu")
"""The workflows whose runs measure."""
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
    source = pull.head.repo.full_name if pull.head.repo is not None else None
    labels = frozenset(label.name for label in pull.labels)
    return Event(EventKind.PULL_REQUEST, foreign=source != repository, labels=labels, changed=changed)


def latest(runs: Sequence[Run], commit: str) -> dict[str, Run]:
    """The newest run of each measuring workflow on exactly this commit: anything older is stale."""
    found: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: run.id):
        if run.name in WORKFLOWS and run.head_sha == commit:
            found[run.name] = run
    return found


def artifact_name(cell: Cell, attempt: int) -> str:
    """What the cell's job calls its upload, as the workflows write it."""
    return f"run-{cell.id}-{attempt}"


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
        return LaneState(cell.lane, Standing.FAILURE, "missing: no run on this commit")
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
            return standing, "; ".join(f"{state.lane}: {state.text}" for state in bad)
    return Standing.SUCCESS, f"{', '.join(state.lane for state in states)}: pass"
