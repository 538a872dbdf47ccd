"""What a damage is, and the ways to make one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ci.errors import ExitCode
from ci.proof.checkout import Checkout
from ci.proof.rules import GateRule
from ci.results.records import AbSession, Record

PASS, RED, OPEN, BROKEN = ExitCode.PASS, ExitCode.REGRESSED, ExitCode.NO_VERDICT, ExitCode.CONTROL_FAILED


@dataclass(frozen=True)
class Damage:
    """One way to break the green checkout."""

    name: str
    rule: GateRule
    word: str
    """The verdict that must follow; ``error`` where there can be none at all."""
    code: ExitCode
    says: str
    """What the output must name, so that it is red for the right reason."""
    do: Callable[[Checkout], object]


def measure(*args: object, **more: object) -> Callable[[Checkout], object]:
    """Let one value have been measured otherwise."""
    return lambda here: here.measure(Record(*args, **more))  # type: ignore[arg-type]


def speed(*sessions: AbSession) -> Callable[[Checkout], object]:
    """Let the A/B metric have these sessions."""
    return measure("speed", "step_ms", 10.0, "ms", sessions=sessions)


def record(old: str, new: str) -> Callable[[Checkout], object]:
    """Edit the records."""
    return lambda here: here.edit(here.records, old, new)


def accepted(old: str, new: str) -> Callable[[Checkout], object]:
    """Edit the baseline."""
    return lambda here: here.edit(here.baseline, old, new)


def policy(old: str, new: str) -> Callable[[Checkout], object]:
    """Edit the policy."""
    return lambda here: here.edit(here.baselines / "policy.toml", old, new)


def plan(old: str, new: str) -> Callable[[Checkout], object]:
    """Edit the plan."""
    return lambda here: here.edit(here.baselines / "plan.toml", old, new)


def junit(old: str, new: str) -> Callable[[Checkout], object]:
    """Edit the test report."""
    return lambda here: here.edit(here.junit, old, new)


def case(body: str) -> Callable[[Checkout], object]:
    """Give the second test a body."""
    return junit('name="boot" time="0.1"/>', f'name="boot" time="0.1">{body}</testcase>')


def both(*steps: Callable[[Checkout], object]) -> Callable[[Checkout], object]:
    """Do one after the other."""
    return lambda here: [step(here) for step in steps]
