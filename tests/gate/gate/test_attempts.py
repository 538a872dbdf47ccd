"""Boots that should fail: as published, in another way, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ci.gate.attempts import Attempt, Expected, judge_attempts
from ci.gate.verdict import Verdict

OOM = Attempt("patched-1-1", "failed", "out of memory", "graph capture")
READY = Attempt("patched-1-2", "ready", None, "warm-up")
PUBLISHED = "block divisibility or out of memory at graph capture"
EXPECTED = Expected(("block divisibility", "out of memory"), "graph capture")


def test_as_published() -> None:
    """Eight boots that fail with a published cause are a pass, and there is nothing to say."""
    other = replace(OOM, cause="block divisibility")
    assert judge_attempts([OOM, other] * 4, EXPECTED) == (Verdict.PASS, ())
    early = replace(OOM, stage="model loading")
    assert judge_attempts([early], replace(EXPECTED, stage=None)) == (Verdict.PASS, ())


@pytest.mark.parametrize(
    ("more", "verdict", "sentence"),
    [
        (
            replace(OOM, cause="scratch assert"),
            Verdict.REGRESSED,
            f"patched-1-1: failed with scratch assert at graph capture, published {PUBLISHED}",
        ),
        (
            replace(OOM, stage=None),
            Verdict.REGRESSED,
            f"patched-1-1: failed with out of memory at its start, published {PUBLISHED}",
        ),
        (
            replace(OOM, outcome="unfinished", cause=None),
            Verdict.INVALID,
            "patched-1-1: unfinished, and its log says no more",
        ),
        (
            replace(OOM, missing=("drafting 7 tokens per step",)),
            Verdict.INVALID,
            "patched-1-1: its log lacks 'drafting 7 tokens per step': not the boot of the profile",
        ),
        (
            READY,
            Verdict.INCONCLUSIVE,
            f"patched-1-2: it boots, published to fail with {PUBLISHED}",
        ),
    ],
)
def test_another_end(more: Attempt, verdict: Verdict, sentence: str) -> None:
    """One boot that ends in another way decides, whatever the others did, and is named."""
    assert judge_attempts([OOM, more], EXPECTED) == (verdict, (sentence,))


def test_all_boot() -> None:
    """Where every boot serves, what was published no longer holds, for the better."""
    verdict, found = judge_attempts([READY, READY], EXPECTED)
    assert verdict is Verdict.IMPROVED
    assert len(found) == 2


def test_no_boot_is_no_verdict() -> None:
    """Without a boot nothing failed as published."""
    assert judge_attempts([], EXPECTED) == (Verdict.INVALID, ("no boot was made",))
