"""The picture of a kernelbench run: which records are on it, and as which line."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ci.report.kernelbench import NothingToDrawError, about, draw_times, panel, times_by_tokens
from ci.results.records import Acceptance, BaselineHead, BaselineRecord, Record, RunHead, Scalar, Subject
from ci.stack.plan import plan_arms
from ci.stack.series import read_series
from tests.gate.report.golden_file import check_golden

ROOT = Path(__file__).parents[3]
HEAD = RunHead(
    schema=1,
    run="example",
    lane="h200",
    suite="kernelbench",
    started="2026-01-02T03:04:05Z",
    subject=Subject(arm="packed", series_hash="0" * 64),
    conditions={"lane": "h200", "gpu": "NVIDIA H200", "torch": "2.11.0", "triton": "3.6.0"},
)


def record(case: str, metric: str, value: Scalar, reason: str | None = None) -> Record:
    """One record of the suite."""
    return Record(case, metric, value, "us", reason=reason)


def made_up() -> list[Record]:
    """Times that follow a rule: a start of some microseconds, and a rate per 1,000 tokens of context."""
    rates = {"us_3d": (9, 2.5), "us_mq3d": (16, 21.5), "us_stock": (11, 134.5), "floor_us": (0, 0.248)}
    cases = {f"short-8-{context}": context for context in (64, 512, 1000)}
    cases |= {f"call-{context}": context for context in (4096, 24576, 49152, 90112)}
    cases |= {f"short-1-{context}": context for context in (64, 512, 1000)}
    cases |= {f"tokens-1-{context}": context for context in (4096, 24576, 90112)}
    found = [
        record(case, metric, start + rate * context / 1000)
        for case, context in cases.items()
        for metric, (start, rate) in rates.items()
    ]
    found += [record(case, "us_2d", 12 + 140 * cases[case] / 1000) for case in cases if "call" in case]
    return [*found, record("seqs-8-24576", "us_3d", 1.0), record("copy", "bytes_per_s", 4e12)]


def test_picture() -> None:
    """Two panels: the arm, stock and mq3d, the bytes alone; under them the machine, the lane and the day."""
    check_golden("kernelbench.svg", draw_times(HEAD, made_up()))


def test_cases_of_one_sequence_are_on_the_axes() -> None:
    """A call has 8 query tokens; batches of several sequences and other heads have no place here."""
    found = times_by_tokens(
        [
            record("call-24576", "us_3d", 78.5),
            record("short-8-64", "us_3d", 9.0),
            record("tokens-16-90112", "us_3d", 269.0),
            record("seqs-8-24576", "us_3d", 400.0),
            record("head-64-24576", "us_3d", 50.0),
            record("prefill-512-0", "us_2d", 300.0),
        ]
    )
    assert found == {8: {24576: {"us_3d": 78.5}, 64: {"us_3d": 9.0}}, 16: {90112: {"us_3d": 269.0}}}


def test_only_numbers_above_zero_have_a_place() -> None:
    """What was not read, a name, or a zero, which a logarithmic axis does not have, is left out."""
    records = [
        record("call-1", "us_mq3d", None, "the series has no such arm"),
        record("call-1", "path", "3D"),
        record("call-1", "us_2d", 0.0),
        record("call-1", "us_3d", 3),
    ]
    assert times_by_tokens(records) == {8: {1: {"us_3d": 3.0}}}


def test_lines_of_a_panel() -> None:
    """Points stand from left to right; a metric that a case lacks leaves a gap and no point."""
    found = panel(1, {1000: {"us_3d": 12.0, "us_stock": 30.0}, 64: {"us_3d": 9.0}}, "packed")
    assert found.title == "1 query token"
    lines = {line.name: line.points for line in found.lines}
    assert lines["packed"] == ((64.0, 9.0), (1000.0, 12.0))
    assert lines["stock"] == ((1000.0, 30.0),)
    assert lines["mq3d"] == ()


def test_records_without_a_time_are_an_error() -> None:
    """An empty picture would look like a fast arm."""
    with pytest.raises(NothingToDrawError, match="h200/kernelbench"):
        draw_times(HEAD, [record("copy", "bytes_per_s", 4e12), record("call-1", "path", "3D")])


def test_an_arm_is_never_drawn_twice() -> None:
    """Under test, mq3d or stock has the line of its own passes and none as an arm beside itself."""
    times = {64: {"us_3d": 9.0, "us_mq3d": 9.1, "us_stock": 30.0}}
    for arm, beside in (("mq3d", {"stock"}), ("stock", {"mq3d"}), ("packed", {"stock", "mq3d"})):
        lines = panel(8, times, arm).lines
        assert [line.points for line in lines if line.name == arm] == [((64.0, 9.0),)]
        assert {line.name for line in lines} == beside | {arm, f"{arm}, 2D", "its bytes alone"}


def test_a_picture_of_accepted_records_says_since_when() -> None:
    """Values may be accepted on different days: the picture is as new as the newest."""
    head = BaselineHead(schema=1, lane="h200", suite="kernelbench", subject=HEAD.subject, conditions={})
    accepted = [
        BaselineRecord("call-4096", "us_3d", 20.0, "us", Acceptance(date, "somebody", "because"))
        for date in ("2026-02-03", "2026-03-02", "2026-01-31")
    ]
    assert about(head, accepted) == ["lane h200, accepted 2026-03-02"]
    assert about(HEAD, []) == ["NVIDIA H200, torch 2.11.0, triton 3.6.0", "lane h200, measured 2026-01-02"]


def test_the_picture_in_the_docs_says_what_it_shows() -> None:
    """It is whole, and names a lane with accepted times, an arm of the series, and the day.

    It need not be of the newest acceptance, which changes records and nothing else: hence the day.
    """
    root = ET.parse(ROOT / "docs" / "kernelbench.svg").getroot()  # noqa: S314 - our own picture
    title, desc = (root.findtext(f"{{http://www.w3.org/2000/svg}}{tag}") or "" for tag in ("title", "desc"))
    named = re.fullmatch(r"Time of one attention call .*, lane (?P<lane>\S+), arm (?P<arm>\S+)", title)
    assert named is not None
    assert (ROOT / "baselines" / named["lane"] / "kernelbench.jsonl").is_file()
    assert named["arm"] in {arm.name for arm in plan_arms(read_series(ROOT / "patches"))}
    assert re.search(rf", lane {named['lane']}, accepted \d{{4}}-\d\d-\d\d$", desc)
