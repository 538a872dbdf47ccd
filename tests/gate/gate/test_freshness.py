"""Files of a run folder come from its run, and the edges of what clocks may differ."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from ci.gate.freshness import CLOCK_SLACK, FUTURE_SLACK, freshness_problems
from ci.results.folder import JUNIT_FILE, RECORDS_FILE, RUN_FILE
from ci.results.jsonl import parse_utc
from tests.gate.samples import NOW, STARTED, Sample

START = parse_utc(STARTED)
TICK = timedelta(microseconds=1)


def test_a_fresh_run_has_no_problem() -> None:
    """Nothing is said of files that are what they should be, nor of a folder without a run."""
    assert freshness_problems(Sample().files(), NOW) == ()
    assert freshness_problems(dataclasses.replace(Sample().files(), run=None), NOW) == ()


@pytest.mark.parametrize(
    ("early", "named"), [(CLOCK_SLACK, ()), (CLOCK_SLACK + TICK, (RECORDS_FILE, JUNIT_FILE))]
)
def test_a_file_may_be_older_by_what_clocks_are_coarse(early: timedelta, named: tuple[str, ...]) -> None:
    """Two seconds, and not a moment more."""
    assert START is not None
    problems = freshness_problems(Sample(written=START - early).files(), NOW)
    assert tuple(problem.file for problem in problems) == named
    assert all("stale: written 2026-09-01T10:59:57Z" in problem.what for problem in problems)


@pytest.mark.parametrize(("ahead", "problems"), [(FUTURE_SLACK, 0), (FUTURE_SLACK + TICK, 1)])
def test_a_run_may_start_as_far_ahead_as_clocks_differ(ahead: timedelta, problems: int) -> None:
    """A run from the future cannot make any file stale, so it is no run."""
    assert START is not None
    found = freshness_problems(Sample().files(), START - ahead)
    assert [problem.file for problem in found] == [RUN_FILE] * problems


def test_the_slack_is_what_the_docs_of_the_module_say() -> None:
    """Seconds for file times, minutes for clocks of two machines."""
    assert (timedelta(seconds=2), timedelta(minutes=5)) == (CLOCK_SLACK, FUTURE_SLACK)


def test_files_of_another_run_lane_or_suite() -> None:
    """Each is named with what it is and what it should be."""
    (other,) = freshness_problems(Sample(head_run="r0").files(), NOW)
    assert other.what == "records.jsonl: stale: of run 'r0', the folder is of run 'r1'"
    (lane,) = freshness_problems(Sample(head_lane="h200").files(), NOW)
    assert lane.what == "records.jsonl: is of h200/property, in the folder of cpu/property"
    assert lane.remedy == "python -m ci run property --lane cpu"
