"""Damages to the test report."""

from __future__ import annotations

from ci.proof.damage import OPEN, RED, Damage, both, case, junit
from ci.proof.rules import GateRule

DAMAGES = (
    Damage("test fails", GateRule.TESTS, "regressed", RED, "boom", case('<failure message="boom"/>')),
    Damage("test ends in an error", GateRule.TESTS, "invalid", OPEN, "boom", case('<error message="boom"/>')),
    Damage(
        "worker dies under a test",
        GateRule.TESTS,
        "invalid",
        OPEN,
        "worker gw3 died",
        case("<error message=\"worker 'gw3' crashed while running t\"/>"),
    ),
    Damage(
        "failure after a skip",
        GateRule.TESTS,
        "regressed",
        RED,
        "boom",
        case('<skipped/><failure message="boom"/>'),
    ),
    Damage(
        "expected failure passes",
        GateRule.TESTS,
        "regressed",
        RED,
        "XPASS",
        case('<failure message="[XPASS(strict)] x"/>'),
    ),
    Damage(
        "failing attribute only",
        GateRule.TESTS,
        "regressed",
        RED,
        "failed",
        junit('name="boot"', 'name="boot" status="failed"'),
    ),
    Damage(
        "failure in a nested suite",
        GateRule.TESTS,
        "regressed",
        RED,
        "boom",
        junit(
            "</testsuite>",
            '<testsuite><testcase name="x"><failure message="boom"/></testcase></testsuite></testsuite>',
        ),
    ),
    Damage(
        "failure beside a pass of the same name",
        GateRule.TESTS,
        "regressed",
        RED,
        "boom",
        junit(
            "</testsuite>",
            '<testcase classname="t" name="grid"><failure message="boom"/></testcase></testsuite>',
        ),
    ),
    Damage(
        "all tests skipped",
        GateRule.TESTS,
        "invalid",
        OPEN,
        "no test was executed",
        both(case("<skipped/>"), junit('name="grid" time="0.1"/>', 'name="grid"><skipped/></testcase>')),
    ),
    Damage(
        "no test at all",
        GateRule.TESTS,
        "invalid",
        OPEN,
        "no test was executed",
        lambda c: c.junit.write_text("<testsuites/>"),
    ),
    Damage(
        "tests taken out of the report",
        GateRule.TESTS,
        "invalid",
        OPEN,
        "declares more tests than it holds",
        junit('<testcase classname="t" name="boot" time="0.1"/>\n', ""),
    ),
    Damage(
        "DOCTYPE",
        GateRule.FOREIGN,
        "invalid",
        OPEN,
        "DOCTYPE",
        junit("<testsuites>", '<!DOCTYPE x [<!ENTITY a "b">]><testsuites>'),
    ),
    Damage(
        "second document behind the first",
        GateRule.FOREIGN,
        "invalid",
        OPEN,
        "something follows",
        lambda c: c.add_line(c.junit, '<testsuite><testcase name="x"><failure/></testcase></testsuite>'),
    ),
    Damage(
        "not a test report",
        GateRule.FOREIGN,
        "invalid",
        OPEN,
        "not a test suite",
        lambda c: c.junit.write_text("<html/>"),
    ),
)
