"""Damages to the controls, and which exit code wins."""

from __future__ import annotations

from ci.proof.damage import BROKEN, OPEN, RED, Damage, accepted, both, measure
from ci.proof.rules import GateRule

DAMAGES = (
    Damage(
        "control stays green",
        GateRule.CONTROLS,
        "control failed",
        BROKEN,
        "stayed green",
        measure("control-rows", "red", False, "bool", control=True),
    ),
    Damage(
        "control unread",
        GateRule.CONTROLS,
        "control failed",
        BROKEN,
        "stayed green",
        measure("control-rows", "red", None, "bool", control=True, reason="no output"),
    ),
    Damage(
        "control says 1 for true",
        GateRule.CONTROLS,
        "control failed",
        BROKEN,
        "stayed green",
        measure("control-rows", "red", 1, "bool", control=True),
    ),
    Damage(
        "control deleted",
        GateRule.PLANNED,
        "missing",
        OPEN,
        "has no result",
        lambda c: c.drop_line(c.records, "control-rows"),
    ),
    Damage(
        "control not marked as one",
        GateRule.CONTROLS,
        "invalid",
        OPEN,
        "a control according to the plan",
        measure("control-rows", "red", True, "bool"),
    ),
    Damage(
        "case marked as a control",
        GateRule.CONTROLS,
        "invalid",
        OPEN,
        "a control according to the run",
        measure("grid", "violations", 0, "vectors", control=True),
    ),
    Damage(
        "control mark in the baseline only",
        GateRule.CONTROLS,
        "invalid",
        OPEN,
        "differ in whether this is a control",
        accepted('"value":1024,"unit":"bytes"', '"value":1024,"unit":"bytes","control":true'),
    ),
    Damage(
        "control green and a value worse",
        GateRule.PRECEDENCE,
        "control failed",
        BROKEN,
        "stayed green",
        both(
            measure("control-rows", "red", False, "bool", control=True),
            measure("grid", "violations", 1, "vectors"),
        ),
    ),
    Damage(
        "a value worse and another missing",
        GateRule.PRECEDENCE,
        "regressed",
        RED,
        "has no result",
        both(
            measure("grid", "violations", 1, "vectors"), lambda c: c.drop_line(c.records, '"metric":"bytes"')
        ),
    ),
)
