"""Boots that are expected to fail: whether they end as published. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ci.gate.verdict import Verdict

READY, FAILED = "ready", "failed"


@dataclass(frozen=True)
class Attempt:
    """How one boot ended."""

    name: str
    outcome: str
    """`ready`, `failed` or `unfinished`."""
    cause: str | None
    stage: str | None
    """How far it came."""
    missing: tuple[str, ...] = ()
    """Phrases that its log should have and has not: it was another boot than the published one."""


@dataclass(frozen=True)
class Expected:
    """How the boots were published to end."""

    causes: tuple[str, ...]
    """Any of these."""
    stage: str | None
    """None for any."""


def judge_attempts(attempts: Sequence[Attempt], expected: Expected) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict over all attempts, and a sentence for each that did not end as published.

    All as published is a pass. Another cause or stage of a failure is a regression; that all of them boot is
    an improvement, that some do is no result; and a boot that neither served nor failed says nothing.
    """
    if not attempts:
        return Verdict.INVALID, ("no boot was made",)
    verdicts = [_verdict(one, expected) for one in attempts]
    if Verdict.IMPROVED in verdicts and set(verdicts) != {Verdict.IMPROVED}:
        verdicts.append(Verdict.INCONCLUSIVE)
    worst = min(verdicts, key=lambda verdict: verdict.rank)
    found = tuple(_sentence(one, expected) for one in attempts if _verdict(one, expected) is not Verdict.PASS)
    return worst, found


def _verdict(one: Attempt, expected: Expected) -> Verdict:
    if one.outcome == READY:
        return Verdict.IMPROVED
    if one.outcome != FAILED or one.missing:
        return Verdict.INVALID
    as_published = one.cause in expected.causes and expected.stage in (None, one.stage)
    return Verdict.PASS if as_published else Verdict.REGRESSED


def _sentence(one: Attempt, expected: Expected) -> str:
    published = " or ".join(expected.causes) + (f" at {expected.stage}" if expected.stage else "")
    if one.outcome == READY:
        return f"{one.name}: it boots, published to fail with {published}"
    if one.outcome != FAILED:
        return f"{one.name}: {one.outcome}, {one.cause or 'and its log says no more'}"
    if one.missing:
        return f"{one.name}: its log lacks {', '.join(map(repr, one.missing))}: not the boot of the profile"
    return f"{one.name}: failed with {one.cause} at {one.stage or 'its start'}, published {published}"
