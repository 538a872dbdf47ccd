"""Start the GPU workflow by hand, follow it, and say early when nobody will take its job."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ci.errors import GateError
from ci.lanes.github import GitHub, Run
from ci.lanes.matrix import Cell

WORKFLOW = "gpu"
POLL_S = 15.0
"""GitHub allows 1,000 calls an hour and repository; this makes 240."""
APPEAR_S = 120.0
"""A dispatched run is listed within seconds."""
QUEUE_S = 20 * 60.0
"""A job without a runner waits a day before GitHub gives up; an approval takes minutes."""


class RunnerOfflineError(GateError):
    """No runner that is online has the labels of a lane."""


class DispatchError(GateError):
    """The workflow did not start, or does not get on."""


@dataclass(frozen=True)
class Clock:
    """Time, as a test sets it."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def require_runners(cells: Sequence[Cell], online: Sequence[frozenset[str]] | None) -> str | None:
    """Raise RunnerOfflineError unless each cell has a runner.

    Args:
        cells: the jobs that will be started.
        online: labels of every runner that is online; None if GitHub does not tell this user.

    Returns:
        A note for the user where it could not be told.
    """
    if online is None:
        return "whether a runner is online cannot be told: only administrators of the repository may ask"
    for cell in cells:
        wanted = {label.lower() for label in cell.runs_on}
        if not any(wanted <= labels for labels in online):
            raise RunnerOfflineError(
                f"no runner with {' '.join(cell.runs_on)} is online: the job would wait for a day",
                remedy="start the runner on its machine (./run.sh), see docs/runners.md",
            )
    return None


def start(github: GitHub, ref: str, lanes: Sequence[str], suites: Sequence[str], clock: Clock) -> Run:
    """Start the workflow on a branch and find its run.

    Raises:
        DispatchError: it does not appear.
    """
    before = max((run.id for run in github.dispatched(WORKFLOW, ref)), default=0)
    github.dispatch(WORKFLOW, ref, {"lane": " ".join(lanes), "suite": " ".join(suites)})
    deadline = clock.now() + APPEAR_S
    while clock.now() < deadline:
        new = [run for run in github.dispatched(WORKFLOW, ref) if run.id > before]
        if new:
            return min(new, key=lambda run: run.id)
        clock.sleep(POLL_S)
    raise DispatchError(
        f"the run was not listed within {APPEAR_S:.0f} s", remedy=f"gh run list -w {WORKFLOW}.yml"
    )


def follow(github: GitHub, run: Run, clock: Clock, say: Callable[[str], None]) -> Run:
    """Wait for the end of a run.

    Raises:
        DispatchError: a job waits too long for a runner or for its approval.
    """
    waiting_since = clock.now()
    status = ""
    while run.status != "completed":
        if run.status != status:
            status, waiting_since = run.status, clock.now()
            say(f"run {run.id}: {status.replace('_', ' ')}")
        if status != "in_progress" and clock.now() - waiting_since > QUEUE_S:
            raise DispatchError(
                f"run {run.id} is {status.replace('_', ' ')} for {QUEUE_S / 60:.0f} minutes",
                cause="nobody approved it, or no runner with the lane's labels took it",
                remedy=f"gh run view {run.id}, then approve or cancel it; nox -s doctor on the runner",
            )
        clock.sleep(POLL_S)
        run = github.run(run.id)
    say(f"run {run.id}: ended ({run.conclusion})")
    return run
