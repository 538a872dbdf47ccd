"""Damages to the files of a run."""

from __future__ import annotations

import shutil

from ci.proof.checkout import SECOND, Checkout
from ci.proof.damage import OPEN, Damage, record
from ci.proof.rules import GateRule


def _link(here: Checkout) -> None:
    target = here.root / "elsewhere.jsonl"
    here.records.rename(target)
    here.records.symlink_to(target)


def _folder(here: Checkout) -> None:
    here.records.unlink()
    here.records.mkdir()


DAMAGES = (
    Damage("records deleted", GateRule.FILES, "missing", OPEN, "records.jsonl", lambda c: c.records.unlink()),
    Damage(
        "records emptied", GateRule.FILES, "invalid", OPEN, "is empty", lambda c: c.records.write_bytes(b"")
    ),
    Damage(
        "records torn in a line",
        GateRule.STRICT,
        "invalid",
        OPEN,
        "stops in the middle",
        lambda c: c.cut(c.records, 20),
    ),
    Damage("records are a folder", GateRule.FILES, "invalid", OPEN, "cannot be read", _folder),
    Damage("records are a link", GateRule.FOREIGN, "invalid", OPEN, "is a link", _link),
    Damage("junit deleted", GateRule.FILES, "missing", OPEN, "junit.xml", lambda c: c.junit.unlink()),
    Damage("junit emptied", GateRule.FILES, "invalid", OPEN, "is empty", lambda c: c.junit.write_bytes(b"")),
    Damage("junit cut off", GateRule.FILES, "invalid", OPEN, "cut off", lambda c: c.cut(c.junit, 40)),
    Damage(
        "run.json deleted",
        GateRule.FILES,
        "missing",
        OPEN,
        "run.json",
        lambda c: c.run_file("run.json").unlink(),
    ),
    Damage(
        "run.json is no JSON",
        GateRule.FILES,
        "invalid",
        OPEN,
        "run.json",
        lambda c: c.cut(c.run_file("run.json"), 5),
    ),
    Damage(
        "run folder deleted",
        GateRule.FILES,
        "missing",
        OPEN,
        "has not run",
        lambda c: shutil.rmtree(c.records.parent),
    ),
    Damage(
        "all runs deleted", GateRule.FILES, "missing", OPEN, "has not run", lambda c: shutil.rmtree(c.runs)
    ),
    Damage("stale records", GateRule.FRESH, "invalid", OPEN, "stale", lambda c: c.age(c.records)),
    Damage("stale junit", GateRule.FRESH, "invalid", OPEN, "stale", lambda c: c.age(c.junit)),
    Damage(
        "records of another run",
        GateRule.FRESH,
        "invalid",
        OPEN,
        "of run 'other'",
        record("run-sample", "other"),
    ),
    Damage(
        "records of another lane",
        GateRule.FRESH,
        "invalid",
        OPEN,
        "is of rtx3090",
        record('"lane":"cpu"', '"lane":"rtx3090"'),
    ),
    Damage(
        "run from the future",
        GateRule.FRESH,
        "invalid",
        OPEN,
        "in the future",
        lambda c: c.edit(c.run_file("run.json"), '"started": "2', '"started": "9'),
    ),
    Damage(
        "run of another suite",
        GateRule.FRESH,
        "invalid",
        OPEN,
        "in the folder of",
        lambda c: c.copy_run(SECOND, c.records.parent),
    ),
)
