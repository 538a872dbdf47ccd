"""The list of mutants that live on is about the code as it is now."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENTRIES = [
    line.split(" :: ")
    for line in (ROOT / "tests" / "mutation" / "survivors.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry[0]}-{entry[2].replace(' ', '-')}")
def test_each_entry_names_a_line_and_says_why(entry: list[str]) -> None:
    """An entry whose line is gone would excuse whatever comes to stand there later."""
    module, code, what, reason = entry
    lines = [
        line.strip() for line in (ROOT / "ci" / "gate" / module).read_text(encoding="utf-8").splitlines()
    ]
    assert code in lines
    assert 0 < int(what.rpartition(" at ")[2]) <= len(code)
    assert len(reason.split()) > 3


def test_no_entry_stands_twice() -> None:
    """One mutant has one reason."""
    assert len({tuple(entry[:3]) for entry in ENTRIES}) == len(ENTRIES) > 0
