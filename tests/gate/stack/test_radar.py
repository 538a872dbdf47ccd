from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ci.results.drift import PatchState
from ci.stack.errors import WheelNotFoundError
from ci.stack.locate import WheelSource
from ci.stack.pin import Pin
from ci.stack.progress import Silent
from ci.stack.radar import fate_file, scan
from ci.stack.series import read_series

PATCH = "--- a/vllm/m.py\n+++ b/vllm/m.py\n@@ -4,3 +4,3 @@\n line 4\n-line 5\n+five\n line 6\n"


def locator(wheel: Any) -> Callable[[str, Pin, Path], tuple[Pin, WheelSource]]:
    """Finds the tiny wheel under its own version, and nothing else."""

    def locate(version: str, pin: Pin, cache: Path) -> tuple[Pin, WheelSource]:
        if version != wheel.pin.vllm:
            raise WheelNotFoundError(f"no vllm {version}")
        return wheel.pin, WheelSource(wheel.path.as_uri())

    return locate


def test_a_judged_release_is_not_looked_at_again(
    wheel: Any, make_series: Callable[..., Path], tmp_path: Path
) -> None:
    """The second scan reads the stored answer: the wheel is not even located."""
    series = read_series(make_series({"a.patch": PATCH}))
    (first,) = scan(series, ["9.9.9"], wheel.pin, tmp_path, Silent(), locator(wheel))
    assert first.fate.state is PatchState.APPLIES
    assert first.fate.record_sha256 == wheel.pin.record_sha256

    def fail(*_: object) -> tuple[Pin, WheelSource]:
        raise AssertionError("located again")

    (second,) = scan(series, ["9.9.9"], wheel.pin, tmp_path, Silent(), fail)
    assert second.cached
    assert second.fate == first.fate


def test_one_release_that_cannot_be_had_does_not_hide_the_others(
    wheel: Any, make_series: Callable[..., Path], tmp_path: Path
) -> None:
    """It carries its problem, is not stored, and the next one is judged."""
    series = read_series(make_series({"a.patch": PATCH}))
    lost, found = scan(series, ["8.0.0", "9.9.9"], wheel.pin, tmp_path, Silent(), locator(wheel))
    assert lost.fate.problem == "no vllm 8.0.0"
    assert lost.fate.state is None
    assert not fate_file(series.patches, "8.0.0", wheel.pin, tmp_path).exists()
    assert found.fate.state is PatchState.APPLIES


def test_the_stored_answer_belongs_to_the_patch_and_the_pin(
    wheel: Any, make_series: Callable[..., Path], tmp_path: Path
) -> None:
    """Another line number in the patch is another answer, since it moves the offsets; so is another pin."""
    one = read_series(make_series({"a.patch": PATCH}))
    two = read_series(make_series({"a.patch": PATCH.replace("-4,3 +4,3", "-5,3 +5,3")}))
    other = dataclasses.replace(wheel.pin, vllm="9.9.8")
    assert one.patches[0].hunk_hash == two.patches[0].hunk_hash
    files = {
        fate_file(series.patches, "9.9.9", pin, tmp_path)
        for series, pin in ((one, wheel.pin), (two, wheel.pin), (one, other))
    }
    assert len(files) == 3


def test_a_stored_answer_that_cannot_be_read_is_made_anew(
    wheel: Any, make_series: Callable[..., Path], tmp_path: Path
) -> None:
    """A damaged file in the cache costs time, not the verdict."""
    series = read_series(make_series({"a.patch": PATCH}))
    file = fate_file(series.patches, "9.9.9", wheel.pin, tmp_path)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"{")
    (seen,) = scan(series, ["9.9.9"], wheel.pin, tmp_path, Silent(), locator(wheel))
    assert not seen.cached
    assert seen.fate.state is PatchState.APPLIES
