"""Sizing rules that a run by hand may put in place of the arm's: `--mutate NAME` must turn the suite red."""

from __future__ import annotations

import pytest
from mutations import MUTATIONS, Rows


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the mutations on the command line."""
    parser.addoption(
        "--mutate", choices=sorted(MUTATIONS), help="size the scratch by a rule that is known to be wrong"
    )


@pytest.fixture(scope="session")
def mutation(request: pytest.FixtureRequest) -> Rows | None:
    """The sizing rule to use instead of the arm's plan, or None."""
    name = request.config.getoption("--mutate")
    return MUTATIONS[name] if name else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many classes the exhaustive check went through."""
    collector = config.pluginmanager.get_plugin("forkproof-collector")
    record = collector.records.get(("classes", "classes")) if collector else None
    if record is not None:
        terminalreporter.write_line(f"{record.value:,} classes of accepted batches checked, none left out")
