"""The throughput sessions of this lane, boot by boot, and what must be noticed in their boots."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from armlib.boots import IN_PROCESS, LANE, arms, gpu_of, refuse

from ci.commands.throughput import chosen
from ci.commands.throughput_session import Outcome, Throughput
from ci.engine.abba import SessionOpenError
from ci.engine.profile import load_profile
from ci.gate.throughput_controls import injections, poisoned
from ci.gate.throughput_validity import session_problems
from ci.results.recorder import add_conditions

PROFILES = {
    "rtx3090": ("rtx3090-throughput", "rtx3090-captured"),
    "rtx4090": ("rtx4090-steps",),
}
"""Every other GPU boots the dummy."""
NAMES = PROFILES.get(LANE, ("any-gpu-captured", "any-gpu-verify"))


@pytest.fixture(scope="session")
def gpu() -> Iterator[None]:
    """This machine's GPU, held for the whole suite."""
    with gpu_of("throughput"):
        yield


def say(text: str) -> None:
    """To standard error: of a worker of pytest-xdist nothing else is seen while it runs."""
    print(text, end="", file=sys.stderr, flush=True)


@pytest.fixture(scope="session", params=NAMES)
def session(request: pytest.FixtureRequest, gpu: None) -> tuple[Throughput, Outcome]:
    """The boots of a profile, in full sight while they run."""
    option = request.config.getoption
    profile = chosen(load_profile(request.param), ("@subject", "@subject") if option("--aa") else None, None)
    one = Throughput(profile, LANE, arms(), in_process=IN_PROCESS, say=say)
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        outcome = one.run(resume=option("--resume"), fresh=option("--fresh"), blocks=option("--blocks"))
        one.conclude(outcome)
    return one, outcome


def test_session(measure: Any, session: tuple[Throughput, Outcome]) -> None:
    """The boots of both arms may be compared; how they compare is the policy's to say."""
    one, outcome = session
    add_conditions({"engine": one.conditions["engine"]})
    for record in one.records(outcome):
        measure(
            record.case,
            record.metric,
            record.value,
            unit=record.unit,
            reason=record.reason,
            sessions=record.sessions,
        )
    check(session)


def check(session: tuple[Throughput, Outcome]) -> None:
    """Refuse boots that must not be compared."""
    one, outcome = session
    refuse(one.problems(outcome), remedy="mend it, then measure a session anew: nox -s throughput")


@pytest.fixture
def comparable(session: tuple[Throughput, Outcome]) -> tuple[Throughput, Outcome]:
    """A session whose boots may be compared: nothing can be shown on others."""
    check(session)
    return session


@pytest.fixture
def complete(comparable: tuple[Throughput, Outcome]) -> tuple[Throughput, Outcome]:
    """A session that has come to its end: half of one can neither find a loss nor show that it cannot."""
    one, outcome = comparable
    if outcome.stopped is None:
        raise SessionOpenError(
            f"{one.profile.name}: boots are left to run", remedy="nox -s throughput -- --resume"
        )
    return comparable


def test_slowdown_is_found(measure: Any, complete: tuple[Throughput, Outcome]) -> None:
    """A loss of 10%, or more where boots spread far, put into the boots of each prompt, is called slower."""
    one, outcome = complete
    made = injections(outcome.head, outcome.boots, one.judges[0])
    red = bool(made) and all(each.found for each in made)
    case, loss = f"control-slowdown-{one.profile.experiment}", max((each.loss for each in made), default=0.0)
    measure.control(case, red=red, metric="injected_loss", value=loss, unit="fraction")
    assert red, made


@pytest.mark.parametrize("session", NAMES[:1], indirect=True)
def test_poisoned_artifact_is_named(measure: Any, comparable: tuple[Throughput, Outcome]) -> None:
    """The boots as a poisoned artifact would have left them: caught, and called what it is."""
    one, outcome = comparable
    problems = session_problems(outcome.head, poisoned(outcome.boots), one.deviation)
    red = bool(problems) and all("a poisoned artifact in the compile cache" in each for each in problems)
    measure.control("control-poisoned-artifact", red=red)
    assert red, problems
