"""Declared totals: never a reason to pass, and a sign of loss only where pytest's counting is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.results.junit import STREAM_FROM_BYTES, parse_junit, read_junit

FAILED = '<failure message="boom"/>'
TEARDOWN = '<error message="failed on teardown with x"/>'


def _file(tests: str, *bodies: str, name: str = "pytest", root: str = "", properties: str = "") -> bytes:
    cases = "".join(
        f'<testcase classname="t" name="t{number}">{body}</testcase>' for number, body in enumerate(bodies)
    )
    suite = f'<testsuite name="{name}" tests="{tests}">{properties}{cases}</testsuite>'
    return f'<testsuites name="{root}">{suite}</testsuites>'.encode()


def _property(value: str) -> str:
    return f'<properties><property name="forkproof-subtests" value="{value}"/></properties>'


LOST = {
    "whole": (_file("2", "", ""), 0),
    "three-of-eight": (_file("8", "", "", ""), 5),
    "own-suite-name": (_file("3", "", name="mine", root="pytest tests"), 2),
    "said-to-have-no-subtests": (_file("3", "", properties=_property("0")), 2),
    "all-gone": (_file("3"), 3),
    "another-writer": (_file("8", "", name="Kernels"), 0),
    "fewer-declared": (_file("1", FAILED, TEARDOWN), 0),
    "no-number": (_file("many", ""), 0),
    "absurd-number": (_file("9" * 5000, ""), 0),
    "pass-then-teardown-error": (_file("2", TEARDOWN), 0),
    "failure-and-error-in-one": (_file("2", FAILED + "<error/>"), 0),
    "failed-subtests": (_file("4", FAILED + '<failure message="contains 1 failed subtest"/>'), 0),
    "passed-subtests": (_file("4", "", properties=_property("3")), 0),
}


@pytest.mark.parametrize("name", LOST)
def test_tests_that_no_element_stands_for(name: str) -> None:
    """What is missing is counted where it can be known, and nowhere else."""
    data, lost = LOST[name]
    assert parse_junit(Path("junit.xml"), data).lost == lost


def test_every_suite_of_a_file_is_held_against_its_own_count() -> None:
    """A whole suite does not make up for one that lost tests."""
    two = _file("1", "", "", "").replace(b"</testsuites>", b"") + _file("3", "").partition(b'name="">')[2]
    assert parse_junit(Path("junit.xml"), two).lost == 2


def test_a_streamed_file_is_counted_as_well(tmp_path: Path) -> None:
    """Plain passes that are not kept count as present."""
    output = f"<system-out>{'x' * 4000}</system-out>"
    number = STREAM_FROM_BYTES // 4000 + 1
    for declared, lost in ((number, 0), (number + 7, 7)):
        (tmp_path / "junit.xml").write_bytes(_file(str(declared), *[output] * number))
        assert read_junit(tmp_path / "junit.xml").lost == lost
