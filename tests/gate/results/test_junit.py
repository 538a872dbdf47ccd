"""JUnit files of many dialects: one logical test per identity, never green by accident."""

from __future__ import annotations

import contextlib
from pathlib import Path

import junitparser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.errors import GateError
from ci.results import junit
from ci.results.files import FileMissingError, FileTooLargeError
from ci.results.junit import JUnitReport, NotJUnitError, parse_junit, read_junit
from ci.results.testcase import State
from ci.results.xml import XmlError

PATH = Path("junit.xml")


def _suite(*cases: str, name: str = "pytest") -> str:
    return f'<testsuite name="{name}">{"".join(cases)}</testsuite>'


def _case(name: str = "test_a", body: str = "", more: str = 'time="0.1"') -> str:
    return f'<testcase classname="t.m" name="{name}" {more}>{body}</testcase>'


def _read(*suites: str) -> JUnitReport:
    return parse_junit(PATH, f"<testsuites>{''.join(suites)}</testsuites>".encode())


def _only(body: str = "", more: str = 'time="0.1"') -> State:
    (case,) = _read(_suite(_case(body=body, more=more))).cases
    return case.state


STATES = {
    "plain": ("", State.PASSED),
    "failure": ('<failure message="m">t</failure>', State.FAILED),
    "bare-failure": ("<failure/>", State.FAILED),
    "error": ("<error/>", State.ERROR),
    "skipped": ("<skipped/>", State.SKIPPED),
    "xfail": ('<skipped type="pytest.xfail" message="known"/>', State.XFAILED),
    "strict-xpass": ('<failure message="[XPASS(strict)] known"/>', State.XPASSED),
    "xpass": ('<skipped message="xfail-marked test passes unexpectedly"/>', State.XPASSED),
    "failure-and-error": ("<failure/><error/>", State.ERROR),
    "skipped-and-error": ("<skipped/><error/>", State.ERROR),
    "skipped-and-failure": ("<skipped/><failure/>", State.FAILED),
    "other-namespace": ('<x:failure xmlns:x="urn:x"/>', State.FAILED),
    "comment": ("<!-- <failure/> -->", State.PASSED),
    "output": ("<system-out>FAILED</system-out>", State.PASSED),
}


@pytest.mark.parametrize("name", STATES)
def test_state_of_a_case(name: str) -> None:
    """The children of a case decide its state, the worst of several."""
    body, state = STATES[name]
    assert _only(body) is state


ATTRIBUTES = {
    'status="notrun" result="suppressed"': State.SKIPPED,
    'status="run" result="skipped"': State.SKIPPED,
    'status="run" result="completed"': State.PASSED,
    'status="disabled"': State.SKIPPED,
    'status="Failed"': State.FAILED,
}


@pytest.mark.parametrize("more", ATTRIBUTES)
def test_state_in_attributes(more: str) -> None:
    """A disabled test without a child element is not passed."""
    assert _only(more=more) is ATTRIBUTES[more]


def test_child_decides_over_attributes() -> None:
    """A failure counts although the attributes say that the test ran."""
    assert _only("<failure/>", 'status="run" result="completed"') is State.FAILED


@pytest.mark.parametrize("state", [State.XPASSED, State.FAILED, State.ERROR, State.CRASHED])
def test_red_states(state: State) -> None:
    """Four states are red; the others are not."""
    assert state.red
    assert not any(other.red for other in (State.PASSED, State.SKIPPED, State.XFAILED))


CRASH = "worker 'gw3' crashed while running 't/m.py::test_a'"


@pytest.mark.parametrize(
    "body",
    [
        f'<error message="failed on setup with &quot;{CRASH}&quot;">{CRASH}</error>',
        f"<failure>{CRASH}</failure>",
    ],
)
def test_worker_crash_is_no_setup_error(body: str) -> None:
    """A dead worker is a state of its own, with the worker named and the time unknown."""
    (case,) = _read(_suite(_case(body=body, more='time="0.000"'))).cases
    assert case.state is State.CRASHED
    assert case.elements[0].worker == "gw3"
    assert case.time_s is None


def test_crash_text_in_a_passed_test_is_only_text() -> None:
    """A test that prints the words has not crashed."""
    assert _only(f"<system-out>{CRASH}</system-out>") is State.PASSED


def test_unmarked_rerun_counts_once() -> None:
    """Two equal passes of one test are one test, two attempts, flaky unknown."""
    report = _read(_suite(_case(more='file="t/m.py"'), _case(more='file="t/m.py"')))
    (case,) = report.cases
    assert (case.state, case.attempts, case.flaky) == (State.PASSED, 2, None)
    assert len(report.elements) == 2
    assert report.counts[State.PASSED] == 1


def test_failed_last_attempt_is_red() -> None:
    """A rerun whose last attempt fails has failed."""
    (case,) = _read(_suite(_case(), _case(body="<failure/>"))).cases
    assert (case.state, case.attempts, case.flaky) == (State.FAILED, 2, False)


@pytest.mark.parametrize("marker", ["flakyFailure", "flakyError", "rerun"])
def test_marked_rerun_that_passes_is_flaky(marker: str) -> None:
    """An earlier failure kept inside a passed case marks it flaky, not failed."""
    (case,) = _read(_suite(_case(body=f'<{marker} message="first"/>'))).cases
    assert (case.state, case.attempts, case.flaky) == (State.PASSED, 2, True)
    assert case.texts[0].message == "first"


def test_marked_rerun_last_attempt_decides() -> None:
    """With a rerun marker the last element decides over an earlier failure."""
    first = _case(body="<rerun/><failure/>")
    (case,) = _read(_suite(first, _case())).cases
    assert (case.state, case.flaky) == (State.PASSED, True)
    (case,) = _read(_suite(first, _case(body="<failure/>"))).cases
    assert (case.state, case.flaky) == (State.FAILED, False)


def test_failed_reruns_stay_failed() -> None:
    """A case that failed every time is failed."""
    (case,) = _read(_suite(_case(body="<failure/><rerunFailure/><rerunFailure/>"))).cases
    assert (case.state, case.attempts, case.flaky) == (State.FAILED, 3, False)


def test_call_failure_and_teardown_error_are_one_attempt() -> None:
    """Two elements of one attempt: the worst wins, both texts stay, and the failure is not lost."""
    report = _read(
        _suite(
            _case(body='<failure message="assert False"/>'),
            _case(body='<error message="failed on teardown with &quot;port busy&quot;"/>'),
        )
    )
    (case,) = report.cases
    assert (case.state, case.attempts, case.flaky, case.failed) == (State.ERROR, 1, False, True)
    assert [text.kind for text in case.texts] == ["failure", "error"]


def test_pass_does_not_cover_a_failure_of_the_same_name() -> None:
    """Without a rerun marker the worst of equal names wins, in either order."""
    for cases in ((_case(), _case(body="<failure/>")), (_case(body="<failure/>"), _case())):
        (case,) = _read(_suite(*cases)).cases
        assert case.state is State.FAILED


@pytest.mark.parametrize("second", ["shard-1", "shard-2"])
def test_shards_stay_apart(second: str) -> None:
    """Equal names in two suites are two tests, also when the suites share their name."""
    report = _read(_suite(_case(body="<failure/>"), name="shard-1"), _suite(_case(), name=second))
    assert [case.state for case in report.cases] == [State.FAILED, State.PASSED]


def test_nested_suites_are_walked() -> None:
    """A failure three suites deep counts, whatever the totals say."""
    inner = _suite(_case(body="<failure/>"), name="inner")
    report = _read(
        f'<testsuite name="a" tests="0" failures="0"><testsuite name="b">{inner}</testsuite></testsuite>'
    )
    (case,) = report.cases
    assert case.identity.suites == ("", "a", "b", "inner")
    assert report.red


def test_failure_outside_of_a_case_counts() -> None:
    """An error that a tool puts on the suite itself is red."""
    report = _read(
        '<testsuite name="s"><testcase name="a" time="1"/><error message="collection"/></testsuite>'
    )
    assert report.counts == {State.PASSED: 1, State.ERROR: 1}
    assert report.red


def test_missing_attributes() -> None:
    """A case lacks time, class or name and is kept; nameless cases stay apart and are suspicious."""
    report = parse_junit(
        PATH,
        b'<testsuite><testcase name="a"/><testcase classname="C" name="b" time=""/>'
        b'<testcase name="c" classname="" time="0.5"/><testcase time="0.1"/><testcase/></testsuite>',
    )
    assert [case.time_s for case in report.cases] == [None, None, 0.5, 0.1, None]
    assert [case.identity.name for case in report.cases] == ["a", "b", "c", None, None]
    assert any("no name" in warning for warning in report.warnings)
    assert any("3 x a case has no time" in warning for warning in report.warnings)


def test_properties_keep_order_and_repeats() -> None:
    """All values of a repeated name are kept, and text stands in for a missing value."""
    (case,) = _read(
        _suite(
            _case(
                body='<properties><property name="x" value="1"/><property name="x" value="2"/>'
                '<property name="n"><![CDATA[text]]></property></properties>'
            )
        )
    ).cases
    assert case.properties == (("x", "1"), ("x", "2"), ("n", "text"))


def test_all_children_are_read() -> None:
    """Several failures and outputs in one case are all kept."""
    (case,) = _read(
        _suite(
            _case(
                body="<failure>1</failure><system-out>a</system-out><failure>2</failure><system-out>b</system-out>"
            )
        )
    ).cases
    assert [text.text for text in case.texts] == ["1", "2"]
    assert [output.text for output in case.elements[0].outputs] == ["a", "b"]


def test_repaired_file_keeps_its_failure() -> None:
    """Terminal colours in a failure text neither lose the failure nor pass unnoticed."""
    report = _read(_suite(_case("a"), _case("b", "<failure>\x1b[31mred\x00</failure>")))
    assert report.counts == {State.PASSED: 1, State.FAILED: 1}
    assert report.repairs
    assert report.complete


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-8"])
def test_encodings(encoding: str) -> None:
    """Names survive in any encoding that the bytes really have."""
    report = parse_junit(PATH, _suite(_case("gr\xfc\xdf[\xe9]", "<failure/>")).encode(encoding))
    assert report.cases[0].identity.name == "gr\xfc\xdf[\xe9]"


def test_truncated_file_is_incomplete() -> None:
    """Whole cases survive a cut; the report is red because the rest is unknown."""
    data = (
        f"<testsuites>{_suite(_case('a'), _case('b'), _case('c', '<failure>long text</failure>'))}".encode()
    )
    report = parse_junit(PATH, data[: data.index(b"long")])
    assert [case.identity.name for case in report.cases] == ["a", "b"]
    assert not report.complete
    assert report.red


def test_every_cut_is_incomplete_or_refused() -> None:
    """No prefix of a file is green."""
    data = f'<?xml version="1.0"?><testsuites>{_suite(_case("a"), _case("b"))}</testsuites>'.encode()
    assert not parse_junit(PATH, data).red
    for end in range(len(data)):
        with contextlib.suppress(GateError):
            assert parse_junit(PATH, data[:end]).red


@pytest.mark.parametrize("suites", [(), (_suite(),), (_suite(_case(body="<skipped/>")),)])
def test_nothing_executed_is_red(suites: tuple[str, ...]) -> None:
    """No tests, or only skipped ones, prove nothing."""
    report = _read(*suites)
    assert report.executed == 0
    assert report.red


def test_other_root_is_refused() -> None:
    """An XML file of another kind is no result."""
    with pytest.raises(NotJUnitError, match="<html>"):
        parse_junit(PATH, b"<html><testcase/></html>")


def test_file_errors(tmp_path: Path) -> None:
    """Missing and oversized files have their own errors."""
    path = tmp_path / "junit.xml"
    with pytest.raises(FileMissingError):
        read_junit(path)
    path.write_text(_suite(_case()))
    with pytest.raises(FileTooLargeError):
        read_junit(path, max_bytes=10)


@given(st.lists(st.sampled_from(["", "<failure/>", "<error/>", "<skipped/>"]), min_size=1, max_size=20))
def test_agrees_with_an_independent_reader(bodies: list[str]) -> None:
    """On plain files the states are those that junitparser reads."""
    text = _suite(*(_case(f"t{index}", body) for index, body in enumerate(bodies)))
    ours = [case.state for case in parse_junit(PATH, text.encode()).cases]
    theirs = []
    for case in junitparser.TestSuite.fromstring(text):
        kinds = [type(result).__name__ for result in case.result]
        theirs.append(
            {"Failure": "failed", "Error": "error", "Skipped": "skipped"}[kinds[0]] if kinds else "passed"
        )
    assert [state.value for state in ours] == theirs


@given(st.binary(max_size=60), st.integers(0, 400))
def test_any_damage_is_a_declared_error(junk: bytes, at: int) -> None:
    """Bytes put anywhere give a report or a declared error, never another exception."""
    suite = _suite(_case("a", "<failure>x</failure>"), _case("b"))
    data = f'<?xml version="1.0"?><testsuites>{suite}</testsuites>'.encode()
    with contextlib.suppress(GateError):
        parse_junit(PATH, data[:at] + junk + data[at:])


@pytest.mark.parametrize(
    "text",
    [
        b'<testsuite><testcase name="a"/><testcase name="b"><error\x80 message="x"/></testcase></testsuite>',
        b'<testsuite><testcase name="a"/><testcase\x80 name="b"><failure/></testcase\x80></testsuite>',
        b'<testsuite><testcase name="a"/><testcase name="b" status="fail\x80ed"/></testsuite>',
    ],
)
def test_a_repair_never_turns_a_failure_into_an_unknown_word(text: bytes) -> None:
    """In a mended file, a tag or state that no dialect has may be what is left of a failure."""
    report = parse_junit(PATH, text)
    assert report.repairs
    assert not report.complete
    assert report.red
    assert any("perhaps a damaged failure" in warning for warning in report.warnings)


def test_a_tag_that_is_not_ascii_belongs_to_no_dialect() -> None:
    """Two stray bytes in a UTF-16 file can turn a failure into another well-formed word."""
    wide = '<testsuite><testcase name="a"/><testcase name="b"><fai\u0a0dlure/></testcase></testsuite>'
    report = parse_junit(PATH, wide.encode("utf-16"))
    assert (report.complete, report.red) == (False, True)


def test_unknown_words_of_a_sound_file_are_a_matter_of_dialect() -> None:
    """A file that needed no mending may have elements of its own."""
    assert not _read(_suite(_case(body="<attachment/>"))).red


def test_a_tag_that_lxml_itself_refuses() -> None:
    """The parser lets a tag of a single colon through; it is no crash of ours."""
    with contextlib.suppress(GateError):
        parse_junit(PATH, b"<:/>")


def _stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> JUnitReport:
    monkeypatch.setattr(junit, "STREAM_FROM_BYTES", 0)
    path = tmp_path / "junit.xml"
    path.write_text(text)
    return read_junit(path)


def test_streamed_passes_are_counted_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file gives the same counts; only what is more than a plain pass is kept."""
    text = _suite(_case("a"), _case("b"), _case("c", '<failure message="m"/>'), _case("d", "<skipped/>"))
    small, large = parse_junit(PATH, text.encode()), _stream(tmp_path, monkeypatch, text)
    assert large.counts == small.counts
    assert (large.executed, large.plain, len(large.cases)) == (small.executed, 2, 2)
    assert large.red


@pytest.mark.parametrize(
    "bodies",
    [("", "<failure/>"), ("<failure/>", ""), ("", ""), ("", "", "<error/>"), ("<rerunFailure/>", "")],
)
def test_streamed_repetitions_come_out_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bodies: tuple[str, ...]
) -> None:
    """Several elements of one test are joined as in a small file, whichever of them came first."""
    text = _suite(*(_case("a", body) for body in bodies))
    small, large = parse_junit(PATH, text.encode()), _stream(tmp_path, monkeypatch, text)
    assert large.counts == small.counts
    assert [(one.state, one.attempts, one.flaky) for one in large.cases] == [
        (one.state, one.attempts, one.flaky) for one in small.cases
    ]


def test_streamed_file_with_too_much_to_keep_is_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no longer fits is unread, and says so."""
    monkeypatch.setattr(junit, "MAX_KEPT", 3)
    report = _stream(tmp_path, monkeypatch, _suite(*(_case(f"t{i}", "<skipped/>") for i in range(5))))
    assert (len(report.cases), report.complete, report.red) == (3, False, True)
    assert "later ones are unread" in report.warnings[0]


@pytest.mark.parametrize(
    "text", ["", "  ", "<!DOCTYPE a><testsuite/>", "<html/>", "<testsuite/><testsuite/>"]
)
def test_streamed_file_is_refused_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Emptiness, a DOCTYPE, another root and a second document are errors."""
    with pytest.raises(XmlError):
        _stream(tmp_path, monkeypatch, text)


def test_streamed_cut_file_is_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole cases before the cut survive, and the report is red."""
    report = _stream(tmp_path, monkeypatch, _suite(_case("a"), _case("b"))[:-15])
    assert not report.complete
    assert report.plain >= 1
