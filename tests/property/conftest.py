"""Sizing rules that a run by hand may put in place of the arm's: `--mutate NAME` must turn the suite red."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from vectors import Configuration, nearest_capture_size

Rows = Callable[[Configuration], int]

MUTATIONS: dict[str, Rows] = {
    "seq-rows": lambda configuration: configuration.seq_threshold,
    "snapped-rows": lambda configuration: nearest_capture_size(configuration.seq_threshold),
}
"""Sequence-unit sizing: as allocated without CUDA graphs, and as replaced by the nearest capture size."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--mutate", choices=sorted(MUTATIONS), help="size the scratch by a rule that is known to be wrong"
    )


@pytest.fixture(scope="session")
def mutation(request: pytest.FixtureRequest) -> Rows | None:
    """The sizing rule to use instead of the arm's plan, or None."""
    name = request.config.getoption("--mutate")
    return MUTATIONS[name] if name else None
