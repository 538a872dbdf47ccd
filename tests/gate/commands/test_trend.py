"""The trend draws what git has."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.cli import main
from ci.commands.trend import curve, render_trend
from ci.report.charts import Point
from tests.gate.commands.test_history import repository

__all__ = ["repository"]


@pytest.mark.parametrize(
    ("values", "drawn"), [([1, 2, 3], "▁▅█"), ([5], "▁"), ([2, 2], "▁▁"), (["x"], ""), ([3, 1], "█▁")]
)
def test_curve(values: list[object], drawn: str) -> None:
    """Low to high, one block per value."""
    assert curve([Point("2026-01-01", value) for value in values]) == drawn  # type: ignore[arg-type]


def test_render() -> None:
    """Every change stands with its day."""
    text = render_trend("cpu/s/c/m", [Point("2026-01-01", 1), Point("2026-02-01", 2)])
    assert text == "cpu/s/c/m  ▁█\n  2026-01-01  1\n  2026-02-01  2\n"


def test_command(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pattern chooses, --changed leaves out what never moved, and no match is an error."""
    baselines = ("--baselines", str(repository / "baselines"))
    assert main(["trend", "*/boot/*", *baselines]) == 0
    out = capsys.readouterr().out
    assert "cpu/property/boot/step_ms  ▁█\n  2026-01-01  9.0\n  2026-02-01  10.0\n" in out
    assert out.splitlines()[-1] == "verdict: pass - trend of 2 metrics (exit 0)"
    assert main(["trend", "*/boot/*", "--changed", *baselines]) == 0
    changed = "verdict: pass - trend of 1 metrics that changed (exit 0)"
    assert capsys.readouterr().out.splitlines()[-1] == changed
    assert main(["trend", "*/boot/bytes", "--changed", *baselines]) == 0
    still = "verdict: pass - trend of 0 metrics that changed (exit 0)"
    assert capsys.readouterr().out.splitlines() == [still]
    assert main(["trend", "nothing", *baselines]) == 2
