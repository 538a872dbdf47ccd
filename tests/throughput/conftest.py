"""Options of the throughput suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer to go on with sessions that were interrupted, and to run a part of them now."""
    parser.addoption("--resume", action="store_true", help="go on with the session that is there")
    parser.addoption("--fresh", action="store_true", help="put the session that is there aside")
    parser.addoption("--blocks", type=int, help="run at most so many blocks of four boots per session now")
    parser.addoption("--aa", action="store_true", help="the subject against itself, for the lane's noise")
