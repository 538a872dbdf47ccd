from __future__ import annotations

from typing import Any

import pytest

from ci.lanes.dispatch import (
    QUEUE_S,
    Clock,
    DispatchError,
    RunnerOfflineError,
    follow,
    require_runners,
    start,
)
from ci.lanes.event import Event, EventKind
from ci.lanes.github import Run
from ci.lanes.matrix import MATRIX_FILE, parse_matrix, plan_jobs

CELLS = plan_jobs(parse_matrix(MATRIX_FILE.read_text("utf-8")), Event(EventKind.MANUAL), ["rtx3090"]).cells
ONLINE = (frozenset({"self-hosted", "linux", "x64", "rtx3090"}),)


class Time:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.at = 0.0
        self.clock = Clock(lambda: self.at, self.sleep)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.at += seconds


def run(number: int, status: str = "queued", conclusion: str | None = None) -> Run:
    """A run as GitHub lists it."""
    return Run(number, "gpu", "a1" * 20, status, 1, "workflow_dispatch", conclusion)


class StandIn:
    """GitHub: lists what it is given, one answer after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.started = list(answers), []

    def dispatched(self, workflow: str, ref: str) -> list[Run]:
        """The next list."""
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def run(self, number: int) -> Run:
        """The next state."""
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def dispatch(self, workflow: str, ref: str, inputs: dict[str, str]) -> None:
        """Remember what was started."""
        self.started.append((workflow, ref, inputs))


def test_an_offline_runner_is_said_at_once() -> None:
    """Not after a day: no runner, one with other labels, and one that is there."""
    for online in ((), (frozenset({"self-hosted", "rtx4090"}),)):
        with pytest.raises(RunnerOfflineError, match="rtx3090 is online"):
            require_runners(CELLS, online)
    assert require_runners(CELLS, ONLINE) is None
    assert "cannot be told" in (require_runners(CELLS, None) or "")


def test_the_run_that_was_started_is_the_one_that_is_followed() -> None:
    """An older run of the same branch is not mistaken for it."""
    stand_in: Any = StandIn([run(5)], [run(5)], [run(7), run(5)])
    assert start(stand_in, "b", ["rtx3090"], ["oracle"], Time().clock).id == 7
    assert stand_in.started == [("gpu", "b", {"lane": "rtx3090", "suite": "oracle"})]


def test_a_run_that_never_appears_is_an_error() -> None:
    """Two minutes, then it is said."""
    stand_in: Any = StandIn([])
    with pytest.raises(DispatchError, match="not listed"):
        start(stand_in, "b", [], [], Time().clock)


def test_it_is_followed_to_its_end() -> None:
    """Each change is said once."""
    said: list[str] = []
    stand_in: Any = StandIn(run(7, "in_progress"), run(7, "in_progress"), run(7, "completed", "failure"))
    assert follow(stand_in, run(7), Time().clock, said.append).conclusion == "failure"
    assert said == ["run 7: queued", "run 7: in progress", "run 7: ended (failure)"]


def test_a_job_that_nobody_takes_is_not_waited_for() -> None:
    """The watchdog ends the wait long before GitHub would; a job at work may take its time."""
    time = Time()
    stuck: Any = StandIn(run(7, "waiting"))
    with pytest.raises(DispatchError, match="is waiting for 20 minutes"):
        follow(stuck, run(7, "waiting"), time.clock, lambda _: None)
    assert QUEUE_S < time.at < 2 * QUEUE_S
    long: Any = StandIn(*[run(7, "in_progress")] * 500, run(7, "completed", "success"))
    assert follow(long, run(7), Time().clock, lambda _: None).conclusion == "success"
