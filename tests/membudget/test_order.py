"""The order of a boot in the arm's source: if it changes, what counts as inside the budget changes too."""

from __future__ import annotations

from typing import Any

import pytest
from armlib.production import arm_root
from boot import AFTER, LOAD, WINDOW, arm_order, boot
from model import Setting
from rules import violations
from source_order import ENGINE, WORKER, Event, Part, boot_order, read_sources

EXPECTED = {
    "v1": [
        Event.LOAD_MODEL,
        Event.WINDOW_OPENS,
        Event.PROFILE_RUN,
        Event.WINDOW_CLOSES,
        Event.BUILDERS,
        Event.BUDGET_FIXED,
        Event.BUILDERS,
    ],
    "v2": [
        Event.LOAD_MODEL,
        Event.WINDOW_OPENS,
        Event.PROFILE_RUN,
        Event.WINDOW_CLOSES,
        Event.BUDGET_FIXED,
        Event.BUILDERS,
    ],
}
"""By model runner. The first makes builders once more, for its estimate of graph memory."""


def said(order: list[Event]) -> str:
    """An order as one value."""
    return " > ".join(event.value for event in order)


def changed(texts: dict[Part, str], part: Part, *edits: tuple[str, str]) -> list[Event]:
    """The order after an edit of one source, which must really change it."""
    text = texts[part]
    for old, new in edits:
        assert text.count(old) == 1, f"{part.file}: {old!r} is there {text.count(old)} times"
        text = text.replace(old, new)
    return boot_order({**texts, part: text})


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_order(measure: Any, runner: str) -> None:
    """The model loads before the memory profile; builders that serve come after the budget is fixed."""
    order = arm_order(arm_root(), runner)
    measure(f"order-{runner}", "events", said(order), unit="order")
    assert order == EXPECTED[runner]
    assert not violations(boot(Setting(4, runner=runner)))


def test_reordered_source_is_seen(measure: Any) -> None:
    """KV caches initialised before the profile, or inside its window, give another order."""
    texts = read_sources(arm_root())
    earlier = changed(
        texts,
        ENGINE,
        ("self.model_executor.determine_available_memory()", "self.model_executor.HELD()"),
        ("self.model_executor.initialize_from_config(", "self.model_executor.determine_available_memory("),
        ("self.model_executor.HELD()", "self.model_executor.initialize_from_config()"),
    )
    window = "weights_memory=int(self.model_runner.model_memory_usage),\n        ) as profile_result:\n"
    inside = changed(
        texts, WORKER, (window, f"{window}            self.model_runner.initialize_kv_cache(None)\n")
    )
    red = earlier != EXPECTED["v1"] and inside != EXPECTED["v1"]
    measure.control("control-reordered-source", red=red)
    assert earlier.index(Event.BUILDERS) < earlier.index(Event.WINDOW_OPENS)
    assert Event.BUILDERS in inside[inside.index(Event.WINDOW_OPENS) : inside.index(Event.WINDOW_CLOSES)]
    assert red


def test_boot_follows_the_order() -> None:
    """The accounted boot takes its steps from the order: builders inside the window are inside the budget."""
    inside = boot(
        Setting(4),
        order=[Event.LOAD_MODEL, Event.WINDOW_OPENS, Event.BUILDERS, Event.WINDOW_CLOSES, Event.BUDGET_FIXED],
    )
    assert {line.phase for line in inside.lines} == {LOAD, WINDOW}
    assert inside.bytes_in(*AFTER) == 0
