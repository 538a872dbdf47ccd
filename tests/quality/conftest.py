"""The option of the quality suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer to ask both arms again."""
    parser.addoption("--fresh", action="store_true", help="put aside what the arms have answered")
