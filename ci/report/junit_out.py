"""The verdict as JUnit XML, for tools that show nothing else."""

from __future__ import annotations

from lxml import etree

from ci.errors import ExitCode
from ci.gate.rows import GateVerdict, Row, SuiteVerdict
from ci.gate.verdict import Verdict
from ci.report import words


def render_junit(verdict: GateVerdict) -> bytes:
    """Return one test suite per lane and suite, one case per row; what is not green is failed or an error."""
    root = etree.Element("testsuites", name="forkproof")
    for suite in verdict.suites:
        _suite(root, suite)
    if not verdict.suites:
        # An empty report reads as green to many tools, and nothing compared is not green.
        empty = etree.SubElement(root, "testsuite", name="forkproof", tests="1", failures="0", errors="1")
        case = etree.SubElement(empty, "testcase", classname="forkproof", name="suites")
        etree.SubElement(case, "error", message="nothing was compared")
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True))


def _suite(root: etree._Element, suite: SuiteVerdict) -> None:
    name = f"{suite.lane}/{suite.suite}"
    failures = sum(row.verdict is Verdict.REGRESSED for row in suite.rows)
    errors = sum(_is_error(row) for row in suite.rows)
    rest = {one: count for one, count in suite.unlisted.items() if count}
    blind = any(one.exit_code is not ExitCode.PASS for one in rest) or not suite.rows
    element = etree.SubElement(
        root,
        "testsuite",
        name=name,
        tests=str(len(suite.rows) + bool(rest or blind)),
        failures=str(failures),
        errors=str(errors + blind),
    )
    for row in suite.rows:
        _case(element, row)
    if rest or blind:
        case = etree.SubElement(element, "testcase", classname=name, name="rows that are counted only")
        shown = ", ".join(f"{count} {one.value}" for one, count in rest.items()) or "no row at all"
        tag = "error" if blind else "system-out"
        etree.SubElement(case, tag).text = shown


def _is_error(row: Row) -> bool:
    return row.verdict.exit_code is ExitCode.NO_VERDICT or row.control_failed


def _case(element: etree._Element, row: Row) -> None:
    case = etree.SubElement(
        element,
        "testcase",
        classname=words.plain(f"{row.lane}.{row.suite}.{row.case}"),
        name=words.plain(row.metric) or "unnamed",
    )
    values = f"got {words.show_value(row.got)}, accepted {words.show_value(row.baseline)}"
    detail = words.plain(f"{values}; {row.rule}; {row.remedy}", 1000)
    if row.verdict is Verdict.REGRESSED or _is_error(row):
        tag = "failure" if row.verdict is Verdict.REGRESSED else "error"
        message = words.plain(f"{words.show_verdict(row)}: {row.why}")
        etree.SubElement(case, tag, message=message, type=words.show_verdict(row)).text = detail
    elif row.verdict is not Verdict.PASS:
        etree.SubElement(case, "system-out").text = words.plain(
            f"{row.verdict.value}: {row.why}; {detail}", 1000
        )
