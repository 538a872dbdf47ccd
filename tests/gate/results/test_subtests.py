"""Subtests are counted into the JUnit file, so that passing ones do not look like lost tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ci.results.junit import read_junit

ROOT = Path(__file__).parents[3]
SUITE = """
def test_many(subtests):
    for number in range(3):
        with subtests.test(number=number):
            assert number >= 0

def test_one():
    pass
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_passing_subtests_are_told_from_lost_tests(tmp_path: Path, workers: str) -> None:
    """pytest's total exceeds its elements, and the recorder says why, with workers and without."""
    (tmp_path / "test_x.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "ci.results.recorder", "-p", "no:cacheprovider"]
    options = ["-n", workers, "-c", "/dev/null", "--rootdir", str(tmp_path), f"--junitxml={tmp_path}/j.xml"]
    subprocess.run([*command, *options, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    text = (tmp_path / "j.xml").read_text()
    assert 'tests="5"' in text
    assert 'name="forkproof-subtests" value="3"' in text
    assert read_junit(tmp_path / "j.xml").lost == 0
    (tmp_path / "j.xml").write_text(text.replace('value="3"', 'value="0"'))
    assert read_junit(tmp_path / "j.xml").lost == 3
