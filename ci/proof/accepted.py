"""Damages to the baselines."""

from __future__ import annotations

from ci.proof.damage import OPEN, Damage, accepted
from ci.proof.rules import GateRule

DAMAGES = (
    Damage(
        "baseline deleted", GateRule.BASELINE, "new", OPEN, "never accepted", lambda c: c.baseline.unlink()
    ),
    Damage(
        "baseline emptied",
        GateRule.BASELINE,
        "invalid",
        OPEN,
        "is empty",
        lambda c: c.baseline.write_bytes(b""),
    ),
    Damage(
        "baseline torn",
        GateRule.BASELINE,
        "invalid",
        OPEN,
        "stops in the middle",
        lambda c: c.cut(c.baseline, 20),
    ),
    Damage(
        "baseline of another suite",
        GateRule.BASELINE,
        "invalid",
        OPEN,
        "the baseline is of",
        accepted('"suite":"sample"', '"suite":"second"'),
    ),
    Damage(
        "baseline with a doubled key",
        GateRule.BASELINE,
        "invalid",
        OPEN,
        "given twice",
        accepted('"metric":"violations"', '"metric":"x","metric":"violations"'),
    ),
    Damage(
        "baseline marked for measuring anew",
        GateRule.BASELINE,
        "invalid",
        OPEN,
        "marked for measuring anew on vllm 9.9.9",
        accepted('"conditions":{', '"remeasure":{"vllm":"9.9.9","why":"the pin moved"},"conditions":{'),
    ),
    Damage(
        "A/A file torn",
        GateRule.BASELINE,
        "invalid",
        OPEN,
        "aa.jsonl",
        lambda c: c.cut(c.baseline.with_name("aa.jsonl"), 9),
    ),
)
