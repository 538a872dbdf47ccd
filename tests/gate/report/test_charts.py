"""Where things stand on an axis."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ci.gate.rows import Band, Cause, Row, Value
from ci.gate.verdict import Verdict
from ci.report.charts import (
    BOOT_STEPS,
    Point,
    Scale,
    boot_steps,
    bullet,
    heat_cell,
    interval_scale,
    load_steps,
    number,
    sparkline,
    used_share,
    waterfall,
)
from ci.results.jsonl import read_baseline

ROW = Row(
    "cpu",
    "s",
    "c",
    "m",
    Verdict.PASS,
    Cause.COMPARED,
    baseline=Value(10, "ms"),
    got=Value(12, "ms"),
    band=Band(None, 20.0),
)


def test_scale() -> None:
    """Ends have room, places are shares of the width, and nothing leaves the axis."""
    scale = Scale([100.0, 200.0])
    assert (scale.low, scale.high) == (92.0, 208.0)
    assert scale.at(150.0) == "50.00%"
    assert (scale.at(-1e9), scale.at(1e9)) == ("0.00%", "100.00%")
    assert scale.box(92.0, 208.0) == "left:0.00%;width:100.00%"
    assert scale.box(150.0, 150.0) == "left:50.00%;width:0.60%"


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [([0.0], 0.0, 1.0), ([5.0, 5.0], 4.5, 5.5), ([-1.0, 1.0], -1.16, 1.16), ([0.0, 10.0], 0.0, 10.8)],
)
def test_scale_of_equal_and_of_positive_values(values: list[float], low: float, high: float) -> None:
    """Equal values get a width; what is never negative has no negative axis."""
    scale = Scale(values)
    assert (scale.low, scale.high) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("value", "drawn"), [(1, 1.0), (2.5, 2.5), (True, None), ("1", None), (None, None), (float("inf"), None)]
)
def test_only_numbers_are_drawn(value: object, drawn: float | None) -> None:
    """Truth values, texts and what was not read have no place on an axis."""
    assert number(value) == drawn  # type: ignore[arg-type]


def test_bullet_has_band_tick_and_dot() -> None:
    """One box for what passes, one mark for the baseline, one for the value."""
    drawn = bullet(ROW)
    assert [drawn.count(f'class="{name}') for name in ("band", "tick", "dot good")] == [1, 1, 1]
    assert "got 12 ms, accepted 10 ms" in drawn
    assert bullet(dataclasses.replace(ROW, got=None, baseline=None, band=None)) == ""
    assert "dot" not in bullet(dataclasses.replace(ROW, got=None))


def test_history_widens_the_axis() -> None:
    """Old values are on the axis as well."""
    assert "<span>1.08e+03 ms</span>" in bullet(ROW, [Point("2026-01-01", 1000)])


@pytest.mark.parametrize(
    ("band", "got", "share"),
    [
        (Band(None, 20.0), 10, 0.5),
        (Band(None, 0.0), 0, 0.0),
        (Band(None, 0.0), 1, 1.0),
        (Band(1.0, 20.0), 10, None),
        (Band(1.0, None), 10, None),
        (None, 10, None),
    ],
)
def test_used_share(band: Band | None, got: int, share: float | None) -> None:
    """Only an upper bound can be used up."""
    assert used_share(dataclasses.replace(ROW, band=band, got=Value(got, "1"))) == share


def test_heat_cells() -> None:
    """A verdict that is not green stands in the cell; else the share of the tightest bound."""
    tight = dataclasses.replace(ROW, got=Value(19, "ms"))
    assert ">95%<" in heat_cell([ROW, tight])
    red = dataclasses.replace(ROW, verdict=Verdict.REGRESSED)
    assert heat_cell([ROW, red, red]) == '<td class="bad">2 regressed</td>'
    new = dataclasses.replace(ROW, verdict=Verdict.NEW)
    assert heat_cell([new]) == '<td class="open">1 new</td>'
    assert heat_cell([dataclasses.replace(ROW, band=None)]) == "<td>pass</td>"
    assert "none" in heat_cell([])


def test_sparkline() -> None:
    """The line goes through all values, the dot is on the last."""
    drawn = sparkline([Point("a", 1), Point("b", 3), Point("c", 2)])
    assert 'd="M4.0 26.0 L90.0 4.0 L176.0 15.0"' in drawn
    assert drawn.count("<circle") == 1
    assert sparkline([Point("a", "text")]) == ""
    assert 'd="M90.0 15.0"' in sparkline([Point("a", 1)])


def test_waterfall_steps_follow_each_other() -> None:
    """Each bar starts where the one before ended; bytes after the profile have a colour of their own."""
    rows = [
        dataclasses.replace(ROW, metric="bytes_at_load", got=Value(75, "bytes")),
        dataclasses.replace(ROW, metric="bytes_after", got=Value(25, "bytes")),
    ]
    drawn = waterfall(load_steps(rows))
    assert "left:0.00%;width:69.44%" in drawn
    assert 'class="bar late" style="left:69.44%;width:23.15%"' in drawn


def test_boots_are_drawn_under_the_names_of_their_records() -> None:
    """The published row at 16: the KV budget falls from where model loading rose to."""
    published = {
        "at_load": 236_716_032,
        "broken_rules": 0,
        "free_rise": 484_442_112,
        "kv_fall": 278_921_216,
        "late_lines": 0,
        "load_rise": 235_929_600,
        "token_fall": 12_347,
    }
    rows = [
        dataclasses.replace(ROW, metric=metric, got=Value(value, "bytes"))
        for metric, value in published.items()
    ]
    steps = boot_steps(rows)
    assert [(step.row.metric, step.begin, step.end) for step in steps] == [
        ("at_load", 0, 236_716_032),
        ("load_rise", 0, 235_929_600),
        ("kv_fall", 235_929_600, -42_991_616),
        ("free_rise", 0, -484_442_112),
    ]
    drawn = waterfall(steps)
    # From -484.4 M to 236.7 M with 8% room on both sides: zero stands at 64.8%, and no bar leaves the axis.
    assert drawn.count('class="zero" style="left:64.81%"') == 4
    assert 'style="left:59.67%;width:33.34%"' in drawn
    assert load_steps(rows) == []


@pytest.mark.parametrize("lane", ["rtx3090", "rtx4090"])
def test_boots_are_looked_for_as_the_suite_records_them(lane: str) -> None:
    """Each accepted row of a lane's boots has the bars that the page draws."""
    accepted = read_baseline(Path("baselines", lane, "membudget.jsonl"))
    metrics = {(one.case, one.metric) for one in accepted.records}
    cases = {case for case, _ in metrics if case.startswith("boots-")}
    assert cases
    assert {(case, metric) for case in cases for metric in BOOT_STEPS if metric != "free_rise"} <= metrics


def test_what_was_not_read_is_no_step() -> None:
    """A number that is missing is left out, and never drawn as zero."""
    rows = [
        dataclasses.replace(ROW, metric="kv_fall", got=Value(10, "bytes")),
        dataclasses.replace(ROW, metric="load_rise", got=Value(None, "bytes")),
        dataclasses.replace(ROW, metric="at_load", got=None),
    ]
    assert [(step.row.metric, step.begin, step.end) for step in boot_steps(rows)] == [("kv_fall", 0, -10)]


def test_intervals_share_one_axis() -> None:
    """Without any interval the axis still has the zero on it."""
    scale = interval_scale([])
    assert scale.low <= 0 < scale.high
