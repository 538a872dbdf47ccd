"""The rules of the gate, as far as a damage can show that they hold."""

from __future__ import annotations

import enum


class GateRule(enum.Enum):
    """One promise each; the table in the docs and the completeness check are made from it."""

    PLANNED = "What is planned is measured: a planned value without a result is missing."
    NOTHING_NEW_PASSES = "What was never planned or accepted is new, never green by silence."
    NOTHING_FORGOTTEN = "What was accepted and is no longer planned or measured is missing."
    FILES = "A file of a run that is gone, empty, cut or unreadable gives no verdict."
    FRESH = "Files belong to the run, lane and suite of their folder and are not older than it."
    STRICT = "A damaged record is named with its line, never repaired in silence."
    TESTS = "A red test is never outvoted by good numbers, and a suite in which nothing ran proves nothing."
    FOREIGN = "A result file is data from a stranger: no DOCTYPE, no link, no second document."
    POLICY = "Every metric has exactly one rule, and a policy that cannot be used gives no verdict."
    PLAN = "A plan that contradicts itself gives no verdict."
    EXACT = "An exact value that differs is regressed."
    PRINTED = "A transcribed value may differ by its printed rounding and by no more."
    BOUND = "A value beyond its bound is regressed."
    RELATIVE = "A value worse by more than its margin is regressed."
    LIKE_WITH_LIKE = "Values of different conditions, units or types are not compared."
    UNREAD = "An unread number is not zero."
    CONTROLS = "A control that stays green ends in exit code 3, whatever else is good."
    BASELINE = "A baseline that is gone, damaged, of another suite or marked as outdated passes nothing."
    PAIRS = "Speed is judged by pairs of boots in the order A B B A, or not at all."
    CONFIRMED = "A slower arm is held until a fresh session confirms it."
    PRECEDENCE = "Where several exit codes apply: 3, then 1, then 2."
