"""Sessions of several prompts, simulated: they end, are held and confirmed as real ones."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from ci.gate import calibration_prompts
from ci.gate.calibration_prompts import (
    NOISE,
    PROMPT_EFFECTS,
    PROMPTS,
    PromptScenario,
    fewer,
    prompt_scenarios,
    simulate_prompts,
)
from ci.gate.throughput import enough
from ci.gate.verdict import Verdict
from ci.results.throughput import SessionHead


def test_every_row_stands_once() -> None:
    """All combinations are there, none twice; noise and effects are what the page says."""
    rows = list(prompt_scenarios())
    assert len(rows) == len(set(rows)) == 3 * 2 * 3
    assert (PROMPTS, PROMPT_EFFECTS, NOISE) == ((1, 2, 6), (0.0, -0.005, -0.01), 0.003)
    assert {row.aa_sessions for row in rows} == {0, 4}


def test_a_seed_gives_the_same_shares() -> None:
    """The table can be made again."""
    row = PromptScenario(2, 4, -0.01)
    assert simulate_prompts(row, 5, 7) == simulate_prompts(row, 5, 7) != simulate_prompts(row, 5, 8)


def test_a_large_loss_is_found_in_two_short_sessions() -> None:
    """Every prompt is worse at the first look of either session: four boots each."""
    shares = simulate_prompts(PromptScenario(2, 4, -0.05), 20, 1)
    assert shares.verdicts == {Verdict.REGRESSED: 1.0}
    assert shares.mean_boots == 8


def test_a_confirming_session_ends_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is enough is asked with the session that it confirms, as of real sessions."""
    asked: set[tuple[str, str | None]] = set()

    def spy(head: SessionHead, *rest: Any) -> str | None:
        asked.add((head.run, rest[3][0].run if rest[3] else None))
        return enough(head, *rest)

    monkeypatch.setattr(calibration_prompts, "enough", spy)
    simulate_prompts(PromptScenario(2, 4, -0.05), 1, 1)
    assert asked == {("first", None), ("second", "first")}


def test_a_large_gain_needs_no_second_session() -> None:
    """Nothing is held where nothing came out worse."""
    shares = simulate_prompts(PromptScenario(2, 4, 0.05), 20, 1)
    assert shares.verdicts == {Verdict.IMPROVED: 1.0}
    assert shares.mean_boots == 4


def test_more_prompts_pass_together_less_often() -> None:
    """A session passes where all of its prompts do, so the share falls with their number."""
    passing = [
        simulate_prompts(PromptScenario(prompts, 0, 0.0), 100, 1).verdicts[Verdict.PASS]
        for prompts in PROMPTS
    ]
    assert all(fewer_prompts > more for fewer_prompts, more in pairwise(passing)), passing


@pytest.mark.parametrize(("repeats", "sessions"), [(2000, 1000), (1, 1)])
def test_fewer(repeats: int, sessions: int) -> None:
    """Half as many, at least one."""
    assert fewer(repeats) == sessions
