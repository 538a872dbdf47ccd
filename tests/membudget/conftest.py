"""What runs where: accounted boots on the CPU lane, real boots on a lane with a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from armlib.boots import LANE, gpu_of

ACCOUNTED = ["test_boot_breaks.py", "test_numbers.py", "test_order.py", "test_rules.py", "test_signature.py"]
collect_ignore = ["test_boots.py", "test_leftovers.py"] if LANE == "cpu" else ACCOUNTED


@pytest.fixture(scope="session")
def gpu() -> Iterator[None]:
    """This machine's GPU, held for the whole suite."""
    with gpu_of("membudget"):
        yield
