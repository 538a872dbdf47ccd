"""Shared caches of the oracle: written once per worker, since the interpreter takes seconds for a write."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from armlib.attention import Geometry
from armlib.bounds import bound_of
from bench import Bench, make_bench
from cases import DEVICE, NARROW, REAL

GPU_ONLY = "gpu_only"


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers by which lanes differ."""
    config.addinivalue_line("markers", f"{GPU_ONLY}: planned on lanes with a GPU only")
    config.addinivalue_line("markers", "cpu_only: run on the CPU lane only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Collect what this lane plans; the plan says so too, and a planned case that is absent is missing."""
    other = GPU_ONLY if DEVICE == "cpu" else "cpu_only"
    out = [item for item in items if item.get_closest_marker(other)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what a green oracle does not cover."""
    terminalreporter.write_line(
        "oracle scope: the reference reads the bytes that the arm cached: it bounds attention and dispatch; "
        "the cache write is bounded by the case cache-write alone"
    )


@pytest.fixture(scope="session")
def benches() -> dict[Geometry, Bench]:
    """One written cache per geometry, filled on demand."""
    return {}


@pytest.fixture
def real(benches: dict[Geometry, Bench]) -> Bench:
    """The real geometry: 24 query heads, 4 KV heads, head size 256."""
    return cached(benches, REAL)


@pytest.fixture
def narrow(benches: dict[Geometry, Bench]) -> Bench:
    """A quarter of its heads."""
    return cached(benches, NARROW)


def cached(benches: dict[Geometry, Bench], geometry: Geometry) -> Bench:
    """The bench of a geometry, made at its first use."""
    if geometry not in benches:
        benches[geometry] = make_bench(geometry)
    return benches[geometry]


@pytest.fixture(scope="session")
def bound() -> Callable[[str, str, str], float]:
    """(suite, case, metric) -> the policy's bound, which a control must exceed."""
    return bound_of
