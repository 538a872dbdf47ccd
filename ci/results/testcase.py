"""One ``<testcase>`` of any dialect: its state, texts, properties and time."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from lxml import etree

from ci.results.durations import parse_seconds
from ci.results.xml import local_name

MAX_TEXT_CHARS = 1 << 16
"""What is kept of one failure text; reports cut further."""
_WORKER = re.compile(r"worker '([^']{1,40})' crashed")


class State(enum.Enum):
    """What became of a test, the best first: of two states of one test the later one here decides."""

    PASSED = "passed"
    XFAILED = "xfailed"
    SKIPPED = "skipped"
    XPASSED = "xpassed"
    FAILED = "failed"
    ERROR = "error"
    CRASHED = "crashed"
    """The worker process died under the test."""

    @property
    def severity(self) -> int:
        """Return the rank, 0 for passed."""
        return list(State).index(self)

    @property
    def red(self) -> bool:
        """Tell whether the state refutes the test's claim; an expected failure that passed does."""
        return self in (State.XPASSED, State.FAILED, State.ERROR, State.CRASHED)


@dataclass(frozen=True)
class Identity:
    """What makes two elements the same test.

    Suites of one name under one parent are told apart by ``#2`` in the path;
    ``ordinal`` counts cases without a name, which are never the same test.
    """

    suites: tuple[str, ...]
    file: str | None
    classname: str | None
    name: str | None
    ordinal: int = 0

    def __str__(self) -> str:
        return "::".join(part for part in (self.file, self.classname, self.name or "unnamed") if part)


@dataclass(frozen=True)
class Text:
    """One failure, error, skip or rerun text."""

    kind: str
    message: str
    text: str


@dataclass(frozen=True)
class Element:
    """One ``<testcase>`` as written."""

    identity: Identity
    state: State
    time_s: float | None
    """None if absent, odd or, after a crash, unknown."""
    texts: tuple[Text, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    outputs: tuple[Text, ...] = ()
    earlier_attempts: int = 0
    """Attempts that a rerun marker inside the element tells of."""
    worker: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def in_teardown(self) -> bool:
        """Tell whether this is the teardown half of a test that has a call half."""
        return any(text.message.startswith("failed on teardown") for text in self.texts)


CHILD_STATES = {
    "failure": State.FAILED,
    "error": State.ERROR,
    "skipped": State.SKIPPED,
    "skip": State.SKIPPED,
    "ignored": State.SKIPPED,
    "disabled": State.SKIPPED,
}
_ATTRIBUTE_STATES = {
    "notrun": State.SKIPPED,
    "suppressed": State.SKIPPED,
    "skipped": State.SKIPPED,
    "disabled": State.SKIPPED,
    "ignored": State.SKIPPED,
    "failed": State.FAILED,
    "failure": State.FAILED,
    "fail": State.FAILED,
    "error": State.ERROR,
}
_RERUNS = ("rerun", "rerunFailure", "rerunError", "flakyFailure", "flakyError")
_OUTPUTS = ("system-out", "system-err")
CASE_TAGS = {*CHILD_STATES, *_RERUNS, *_OUTPUTS, "properties"}
"""What may stand in a case, in any dialect."""


def read_case(element: etree._Element, identity: Identity) -> Element:
    """Return the content of a ``<testcase>``; several states in one case give the worst."""
    texts: list[Text] = []
    outputs: list[Text] = []
    properties: list[tuple[str, str]] = []
    states: list[State] = []
    reruns = 0
    for child in element:
        if not isinstance(child.tag, str):  # a comment
            continue
        tag = local_name(child)
        if tag in CHILD_STATES:
            texts.append(read_text(tag, child))
            states.append(_child_state(tag, child, texts[-1]))
        elif tag in _RERUNS:
            texts.append(read_text(tag, child))
            reruns += 1
        elif tag in _OUTPUTS:
            outputs.append(read_text(tag, child))
        elif tag == "properties":
            properties += [_read_property(item) for item in child if isinstance(item.tag, str)]
    states = states or _attribute_states(element)
    state = max(states, key=lambda one: one.severity, default=State.PASSED)
    worker = _crashed_worker(texts) if state.red else None
    time_s, warning = parse_seconds(element.get("time"))
    if worker is not None:  # written as a setup error of 0 s
        state, time_s, warning = State.CRASHED, None, None
    return Element(
        identity,
        state,
        time_s,
        tuple(texts),
        tuple(properties),
        tuple(outputs),
        reruns,
        worker,
        (warning,) if warning else (),
    )


def _child_state(tag: str, child: etree._Element, text: Text) -> State:
    """Return the child's state; pytest writes expected failures as skips and strict passes as failures."""
    state = CHILD_STATES[tag]
    if state is State.SKIPPED and child.get("type") == "pytest.xfail":
        return State.XFAILED
    if state is State.SKIPPED and "xfail-marked test passes unexpectedly" in (text.message + text.text):
        return State.XPASSED
    if state is State.FAILED and (text.message or text.text).lstrip().startswith("[XPASS(strict)]"):
        return State.XPASSED
    return state


def _attribute_states(element: etree._Element) -> list[State]:
    values = (element.get("status", "").lower(), element.get("result", "").lower())
    return [_ATTRIBUTE_STATES[value] for value in values if value in _ATTRIBUTE_STATES]


def _crashed_worker(texts: list[Text]) -> str | None:
    for text in texts:
        match = _WORKER.search(text.message) or _WORKER.search(text.text)
        if match:
            return match.group(1)
    return None


def read_text(kind: str, element: etree._Element) -> Text:
    """Return message and text of a failure, error, skip or output element, cut at a limit."""
    text = "".join(str(part) for part in element.itertext())
    return Text(kind, element.get("message", "")[:MAX_TEXT_CHARS], text[:MAX_TEXT_CHARS])


def _read_property(element: etree._Element) -> tuple[str, str]:
    value = element.get("value")
    return element.get("name", ""), value if value is not None else "".join(map(str, element.itertext()))
