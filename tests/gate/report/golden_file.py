"""Golden files: what a reader sees of one state in one report."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"
TODAY = date(2026, 9, 1)


def check_golden(name: str, text: str) -> None:
    """Compare with the golden file; FORKPROOF_GOLDEN=write writes it anew."""
    path = GOLDEN / name
    if os.environ.get("FORKPROOF_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
