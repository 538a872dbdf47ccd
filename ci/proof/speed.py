"""Damages to the A/B sessions."""

from __future__ import annotations

from ci.proof.checkout import boots
from ci.proof.damage import OPEN, RED, Damage, record, speed
from ci.proof.rules import GateRule
from ci.results.records import AbSession

DAMAGES = (
    Damage(
        "slower arm, first session",
        GateRule.CONFIRMED,
        "inconclusive",
        OPEN,
        "awaiting confirmation",
        speed(boots(0.03, "s1")),
    ),
    Damage(
        "slower arm, confirmed",
        GateRule.CONFIRMED,
        "regressed",
        RED,
        "confirmed: first",
        speed(boots(0.03, "s1"), boots(0.03, "s2")),
    ),
    Damage(
        "confirmed by its own run",
        GateRule.CONFIRMED,
        "invalid",
        OPEN,
        "of the same run",
        speed(boots(0.03, "s1"), boots(0.0, "s1")),
    ),
    Damage(
        "a third session",
        GateRule.CONFIRMED,
        "invalid",
        OPEN,
        "search for a verdict",
        speed(*(boots(0.0, run) for run in ("s1", "s2", "s3"))),
    ),
    Damage(
        "arms swapped",
        GateRule.PAIRS,
        "invalid",
        OPEN,
        "arm B is stock",
        speed(boots(-0.03, "s1", ("patched", "stock"))),
    ),
    Damage(
        "order A B A B",
        GateRule.PAIRS,
        "invalid",
        OPEN,
        "the plan is A B B A",
        record('"order":"ABBA', '"order":"ABAB'),
    ),
    Damage(
        "a boot lost", GateRule.PAIRS, "invalid", OPEN, "16 boots", record('"values":[10.005,', '"values":[')
    ),
    Damage(
        "a boot of zero",
        GateRule.PAIRS,
        "invalid",
        OPEN,
        "not a positive number",
        record('"values":[10.005,', '"values":[0.0,'),
    ),
    Damage(
        "one pair only",
        GateRule.PAIRS,
        "inconclusive",
        OPEN,
        "could have gone unseen",
        speed(AbSession("s1", ("stock", "patched"), "AB", (10.0, 12.0))),
    ),
    Damage("a single number for speed", GateRule.PAIRS, "inconclusive", OPEN, "needs paired boots", speed()),
    Damage(
        "boots too noisy to tell",
        GateRule.PAIRS,
        "inconclusive",
        OPEN,
        "would have seen a loss of",
        speed(boots(0.0, "s1", noise=0.05)),
    ),
)
