"""What a throughput session says in text beside its table."""

from __future__ import annotations

from msgspec.structs import replace

from ci.report.throughput import render_texts
from tests.gate.gate.boots import POINT, boots, changed, head, point


def test_texts() -> None:
    """At which prompts boots wrote other texts, and whether the arms have one in common."""
    its = boots(2)
    assert render_texts(head(), its) == "texts: the same in all boots\n"
    drifted = changed(its, 3, replace(its[3], points=(point(26.0, text="u"),)))
    words = f"texts differ, which is no failure: {POINT}: 2 of A, 1 of B, 1 in common\n"
    assert render_texts(head(), drifted) == words
