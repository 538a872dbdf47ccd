"""Damages to the plan, measured and accepted."""

from __future__ import annotations

import shutil

from ci.proof.checkout import LANE, SECOND, SUITE
from ci.proof.damage import OPEN, Damage, both, plan
from ci.proof.rules import GateRule

DAMAGES = (
    Damage(
        "planned result missing",
        GateRule.PLANNED,
        "missing",
        OPEN,
        "has no result",
        lambda c: c.drop_line(c.records, '"metric":"bytes"'),
    ),
    Damage(
        "records end early at a line",
        GateRule.PLANNED,
        "missing",
        OPEN,
        "has no result",
        lambda c: c.drop_line(c.records, '"case":"speed"'),
    ),
    Damage(
        "planned suite did not run",
        GateRule.PLANNED,
        "missing",
        OPEN,
        "has not run",
        lambda c: shutil.rmtree(c.runs / LANE / SECOND),
    ),
    Damage(
        "case added to the plan only",
        GateRule.PLANNED,
        "missing",
        OPEN,
        "has no result",
        plan('names = ["grid"]', 'names = ["grid", "later"]'),
    ),
    Damage(
        "result outside of the plan",
        GateRule.NOTHING_NEW_PASSES,
        "new",
        OPEN,
        "not in the plan",
        lambda c: c.add_line(
            c.records, '{"kind":"record","case":"extra","metric":"violations","value":0,"unit":"vectors"}'
        ),
    ),
    Damage(
        "case removed from the plan",
        GateRule.NOTHING_NEW_PASSES,
        "new",
        OPEN,
        "not in the plan",
        plan('"step_ms", "share"', '"share"'),
    ),
    Damage(
        "run on an unplanned lane",
        GateRule.NOTHING_NEW_PASSES,
        "invalid",
        OPEN,
        "gtx1080",
        lambda c: c.copy_run(SUITE, c.runs / "gtx1080" / SUITE),
    ),
    Damage(
        "run of an unplanned suite",
        GateRule.NOTHING_NEW_PASSES,
        "invalid",
        OPEN,
        "third",
        lambda c: c.copy_run(SUITE, c.runs / LANE / "third"),
    ),
    Damage(
        "result never accepted",
        GateRule.NOTHING_NEW_PASSES,
        "new",
        OPEN,
        "never accepted",
        lambda c: c.drop_line(c.baseline, '"metric":"bytes"'),
    ),
    Damage(
        "accepted case neither planned nor run",
        GateRule.NOTHING_FORGOTTEN,
        "missing",
        OPEN,
        "neither planned nor measured",
        both(
            plan('"step_ms", "share"', '"share"'),
            lambda c: c.drop_line(c.records, '"metric":"step_ms","value":10.0,"unit":"ms"}'),
        ),
    ),
    Damage(
        "baseline of a forgotten suite",
        GateRule.NOTHING_FORGOTTEN,
        "missing",
        OPEN,
        "old",
        lambda c: shutil.copy(c.baseline, c.baseline.with_name("old.jsonl")),
    ),
    Damage(
        "plan without a control",
        GateRule.PLAN,
        "error",
        OPEN,
        "has no control",
        plan('\n[[suite.control]]\nnames = ["control-rows"]\n', "\n"),
    ),
    Damage(
        "case planned twice",
        GateRule.PLAN,
        "error",
        OPEN,
        "planned twice",
        plan('names = ["grid"]', 'names = ["grid", "grid"]'),
    ),
    Damage("plan is no TOML", GateRule.PLAN, "error", OPEN, "plan.toml", plan("schema = 1", "schema = = 1")),
)
