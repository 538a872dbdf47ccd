"""JUnit XML: one logical test per identity, whatever the writer's dialect.

The totals on a suite never make anything pass: what counts is what stands in the
cases.  Only more tests declared than written is passed on, as a sign of loss.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from lxml import etree

from ci.results.declared import Declared, read_declared
from ci.results.files import open_plain, read_limited
from ci.results.testcase import CASE_TAGS, CHILD_STATES, Element, Identity, State, Text, read_case, read_text
from ci.results.xml import Parsed, XmlError, local_name, parse_xml, stream_xml

MAX_FILE_BYTES = 512 << 20
STREAM_FROM_BYTES = 16 << 20
"""Larger files are streamed: plain passes are counted instead of kept, and damage is not mended."""
MAX_KEPT = 20_000
"""Cases of a streamed file that are more than a plain pass; a file with more of them is red anyway."""
_SUITES = ("testsuites", "testsuite")
_KNOWN = {*_SUITES, "testcase", "property", *CASE_TAGS}


class NotJUnitError(XmlError):
    """An XML file that holds something else than test results."""


@dataclass(frozen=True)
class JUnitCase:
    """One logical test: all elements of one identity."""

    identity: Identity
    state: State
    elements: tuple[Element, ...]
    attempts: int
    flaky: bool | None
    """True: failed and then passed; None: ran several times, the file does not say why."""

    @property
    def time_s(self) -> float | None:
        """Seconds of the element that decided the state."""
        return next(element.time_s for element in reversed(self.elements) if element.state is self.state)

    @property
    def failed(self) -> bool:
        """Tell whether a claim of the test was refuted, whatever else went wrong around it."""
        return self.state.red and (
            self.state in (State.FAILED, State.XPASSED) or any(text.kind == "failure" for text in self.texts)
        )

    @property
    def texts(self) -> tuple[Text, ...]:
        """All failure, error and skip texts in order."""
        return tuple(text for element in self.elements for text in element.texts)

    @property
    def properties(self) -> tuple[tuple[str, str], ...]:
        """All properties in order, repeated names kept."""
        return tuple(pair for element in self.elements for pair in element.properties)


@dataclass(frozen=True)
class JUnitReport:
    """What one file says."""

    cases: tuple[JUnitCase, ...]
    complete: bool = True
    repairs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    plain: int = 0
    """Further tests that passed once and said nothing; a streamed file keeps no more of them."""
    lost: int = 0
    """Tests that a suite of pytest's declares and no element can stand for."""

    @property
    def elements(self) -> tuple[Element, ...]:
        """All ``<testcase>`` elements, grouped by test."""
        return tuple(element for case in self.cases for element in case.elements)

    @property
    def executed(self) -> int:
        """How many tests ran at all; a report of skipped tests only proves nothing."""
        return self.plain + sum(case.state is not State.SKIPPED for case in self.cases)

    @property
    def counts(self) -> Counter[State]:
        """Logical tests by state."""
        return Counter(case.state for case in self.cases) + Counter({State.PASSED: self.plain})

    @property
    def red(self) -> bool:
        """Tell whether any test is red or the file cannot show that none is."""
        return not self.complete or not self.executed or any(case.state.red for case in self.cases)


def read_junit(path: Path, max_bytes: int = MAX_FILE_BYTES) -> JUnitReport:
    """Read a JUnit file; whole cases before a cut survive and ``complete`` is then False.

    Raises:
        XmlError: empty, DOCTYPE, two documents, no XML, or not JUnit.
        ci.results.files errors: missing, unreadable or too large.
    """
    with open_plain(path, max_bytes) as stream:
        if os.fstat(stream.fileno()).st_size >= STREAM_FROM_BYTES:
            return _report(stream_xml(path, stream, _CompactCollector(path)))
    return parse_junit(path, read_limited(path, max_bytes))


def parse_junit(path: Path, data: bytes) -> JUnitReport:
    """Return what ``data`` says; ``path`` is for messages. Errors as for `read_junit`."""
    return _report(parse_xml(path, data, lambda: _Collector(path)))


def _report(parsed: Parsed[C]) -> JUnitReport:
    warnings = list(parsed.sink.warnings)
    if parsed.problem is not None:
        warnings.append(f"the file stops making sense, later cases are unread: {parsed.problem}")
    cases = tuple(_merge(group) for group in parsed.sink.groups.values())
    doubled = sum(len(case.elements) > 1 for case in cases)
    if doubled:
        warnings.append(
            f"{doubled} tests are reported more than once; a rerun's last attempt or the worst counts"
        )
    warnings += _count_warnings(cases)
    # Every dialect is written in ASCII; other unknown words matter where something had to be mended.
    strange = any(not one.isascii() for one in parsed.sink.unknown)
    damaged = strange or bool(parsed.repairs and parsed.sink.unknown)
    if damaged:
        shown = ", ".join(sorted(parsed.sink.unknown)[:3])[:200]
        warnings.append(f"unknown to every dialect, and perhaps a damaged failure: {shown}")
    return JUnitReport(
        cases,
        complete=parsed.problem is None and not parsed.sink.overfull and not damaged,
        repairs=parsed.repairs,
        warnings=tuple(warnings),
        plain=len(parsed.sink.plain),
        lost=parsed.sink.lost,
    )


def _count_warnings(cases: tuple[JUnitCase, ...]) -> list[str]:
    """Return one line per kind of warning with its number, so that a long file warns briefly."""
    counts = Counter(warning for case in cases for element in case.elements for warning in element.warnings)
    return [f"{number} x {warning}" for warning, number in counts.items()]


def _merge(group: list[Element]) -> JUnitCase:
    """Join the elements of one identity: a marked rerun's last attempt decides, else the worst."""
    marked = sum(element.earlier_attempts for element in group)
    attempts = max(1, sum(not element.in_teardown for element in group)) + marked
    worst = max((element.state for element in group), key=lambda state: state.severity)
    state = group[-1].state if marked else worst
    flaky: bool | None = False
    if marked:
        flaky = not state.red
    elif attempts > 1 and not state.red:
        flaky = None
    return JUnitCase(group[0].identity, state, tuple(group), attempts, flaky)


@dataclass
class _Collector:
    """Collects the cases while the parser walks through suites of any depth."""

    path: Path
    groups: dict[Identity, list[Element]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    _suites: list[str] = field(default_factory=list)
    _names_seen: list[Counter[str]] = field(default_factory=lambda: [Counter()])
    _declared: list[Declared] = field(default_factory=list)
    _unnamed: int = 0
    lost: int = 0
    plain: set[int] = field(default_factory=set)
    overfull: bool = False
    unknown: set[str] = field(default_factory=set)
    """Tags and states that no dialect has."""

    def start(self, tag: str, element: etree._Element) -> None:
        """Enter a suite."""
        if element.getparent() is None and tag not in _SUITES:
            raise NotJUnitError(
                f"{self.path}: the root element is <{tag[:40]}>, not a test suite",
                remedy="pass the file that pytest wrote for --junitxml",
            )
        if tag not in _KNOWN:
            self.unknown.add(tag)
        self.unknown |= {
            state for name in ("status", "result") if "\ufffd" in (state := element.get(name, ""))
        }
        if tag in _SUITES:
            name = element.get("name") or ""
            self._names_seen[-1][name] += 1
            count = self._names_seen[-1][name]
            self._suites.append(name if count == 1 else f"{name}#{count}")
            self._names_seen.append(Counter())
            self._declared.append(read_declared(element))

    def end(self, tag: str, element: etree._Element) -> None:
        """Take a whole case, or leave a suite."""
        if tag in _SUITES:
            self._suites.pop()
            self._names_seen.pop()
            self.lost += self._declared.pop().lost
        elif tag == "testcase":
            case = read_case(element, self._identity(element))
            if self._declared:
                self._declared[-1].add(case)
            self._add(case)
            _release(element)
        elif tag == "properties" and _is_suite(element.getparent()):
            self._declared[-1].add_properties(element)
        elif tag in ("failure", "error") and _is_suite(element.getparent()):
            self.warnings.append(f"a <{tag}> stands outside of any case")
            self._add(Element(self._identity(None), CHILD_STATES[tag], None, (read_text(tag, element),)))

    def _identity(self, element: etree._Element | None) -> Identity:
        attributes: Mapping[str, str] = {} if element is None else element.attrib
        name = attributes.get("name")
        if not name:
            self._unnamed += 1
            if element is not None:
                self.warnings.append("a case has no name: it may be what is left of a longer one")
        return Identity(
            tuple(self._suites),
            attributes.get("file") or None,
            attributes.get("classname") or None,
            name or None,
            0 if name else self._unnamed,
        )

    def _add(self, element: Element) -> None:
        self.groups.setdefault(element.identity, []).append(element)


class _CompactCollector(_Collector):
    """Keeps of a plain pass only the hash of its identity, so that a long file does not pile up."""

    def _add(self, element: Element) -> None:
        key = hash(element.identity)
        quiet = element.state is State.PASSED and not (element.texts or element.warnings)
        if quiet and element.identity.name and key not in self.plain and element.identity not in self.groups:
            self.plain.add(key)
            return
        if key in self.plain:  # reported before: from now on in full, the first time as the pass it was
            self.plain.discard(key)
            super()._add(Element(element.identity, State.PASSED, None))
        if element.identity not in self.groups and len(self.groups) >= MAX_KEPT:
            if not self.overfull:
                self.warnings.append(f"more than {MAX_KEPT} cases are no plain passes: later ones are unread")
            self.overfull = True
            return
        super()._add(dataclasses.replace(element, outputs=(), properties=()))


C = TypeVar("C", bound=_Collector)


def _is_suite(element: etree._Element | None) -> bool:
    return element is not None and local_name(element) in _SUITES


def _release(element: etree._Element) -> None:
    """Free a case that was read, so that a long file does not pile up."""
    element.clear(keep_tail=False)
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]
