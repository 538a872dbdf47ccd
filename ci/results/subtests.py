"""Counts subtests for the JUnit file: pytest adds them to its total, but passing ones leave no element."""

from __future__ import annotations

import pytest
from _pytest.junitxml import xml_key

from ci.results.declared import SUBTESTS_PROPERTY

_REPORTS = ("SubtestReport", "SubTestReport")
"""Names of pytest's own class and of the plugin's before it."""


class SubtestCounter:
    """Plugin of the controller."""

    def __init__(self) -> None:
        self.count = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the report if it is a subtest's."""
        self.count += type(report).__name__ in _REPORTS

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the number down before the JUnit file is written."""
        xml = session.config.stash.get(xml_key, None)
        if xml is not None:
            xml.add_global_property(SUBTESTS_PROPERTY, str(self.count))
