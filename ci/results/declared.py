"""What a suite says of itself, used in one direction only: more declared than written is a sign of loss.

pytest counts reports, not elements.  An element can stand for several reports: a
state child each, the pass before a teardown error, and every subtest.  Passing
subtests leave no trace in the file, so a run of ours says how many there were.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lxml import etree

if TYPE_CHECKING:
    from ci.results.testcase import Element

SUBTESTS_PROPERTY = "forkproof-subtests"
"""Suite property with the number of subtests that were reported."""
_OWN_SUITE, _OWN_ROOT = "pytest", "pytest tests"
_STATES = ("failure", "error", "skipped")
_COUNT = re.compile(r"[0-9]{1,9}")


@dataclass
class Declared:
    """One suite while it is read."""

    tests: int | None = None
    """What ``tests=`` says, where pytest wrote it; other writers count in other ways."""
    seen: int = 0
    """Most reports that the elements so far can stand for."""
    subtests: bool = False

    @property
    def lost(self) -> int:
        """Return how many declared tests no element can stand for; 0 where that cannot be known."""
        return 0 if self.tests is None or self.subtests else max(0, self.tests - self.seen)

    def add(self, element: Element) -> None:
        """Count one ``<testcase>``."""
        states = [text for text in element.texts if text.kind in _STATES]
        self.seen += max(1, len(states)) + element.in_teardown
        failures = sum(text.kind == "failure" for text in states)
        self.subtests |= failures > 1 or any("subtest" in text.message for text in states)

    def add_properties(self, properties: etree._Element) -> None:
        """Take note of subtests that the suite's ``<properties>`` tell of."""
        self.subtests |= any(
            one.get("name") == SUBTESTS_PROPERTY and one.get("value") != "0" for one in properties
        )


def read_declared(suite: etree._Element) -> Declared:
    """Return what a ``<testsuite>`` declares, if it is one of pytest's."""
    parent = suite.getparent()
    own = suite.get("name") == _OWN_SUITE or (parent is not None and parent.get("name") == _OWN_ROOT)
    count = _COUNT.fullmatch(suite.get("tests") or "")
    return Declared(int(count[0]) if own and count else None)
