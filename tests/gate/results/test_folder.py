"""A run folder is read as far as possible, and each unusable file is one problem."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.results.folder import RunFileError, SuiteFiles, read_run, read_suite_files
from tests.gate.samples import Sample


def _read(root: Path) -> SuiteFiles:
    folder = root / "out" / "runs" / "cpu" / "property"
    return read_suite_files(folder, root / "baselines" / "cpu" / "property.jsonl", "cpu", "property")


def test_whole_folder(tmp_path: Path) -> None:
    """A good run has no problem, and the times of its files are known."""
    files = _read(Sample().write(tmp_path))
    assert files.problems == ()
    assert files.results is not None
    assert files.baseline is not None
    assert files.junit is not None
    assert files.run is not None
    assert set(files.written or ()) == {"records.jsonl", "junit.xml"}


@pytest.mark.parametrize("name", ["run.json", "records.jsonl", "junit.xml"])
@pytest.mark.parametrize(
    "damage", ["deleted", "emptied", "garbled", "replaced by a folder", "replaced by a link"]
)
def test_each_damaged_file_is_one_problem(tmp_path: Path, name: str, damage: str) -> None:
    """One damaged file is named, and the others are still read."""
    path = Sample().write(tmp_path) / "out" / "runs" / "cpu" / "property" / name
    good = path.rename(tmp_path / name)
    if damage == "emptied":
        path.touch()
    elif damage == "garbled":
        path.write_bytes(b"\xff\x00<")
    elif damage == "replaced by a link":
        path.symlink_to(good)
    elif damage != "deleted":
        path.mkdir()
    files = _read(tmp_path)
    (problem,) = files.problems
    assert (problem.file, problem.missing) == (name, damage == "deleted")
    assert problem.remedy
    assert [files.run, files.results, files.junit].count(None) == 1


def test_missing_folder_is_one_problem(tmp_path: Path) -> None:
    """A suite that has not run is one problem, not three."""
    (problem,) = _read(tmp_path).problems
    assert problem.missing
    assert problem.remedy == "python -m ci run property --lane cpu"


def test_missing_baseline_is_no_problem_and_a_broken_one_is(tmp_path: Path) -> None:
    """Without a baseline the results are new; a broken one must not look like none."""
    baseline = Sample().write(tmp_path) / "baselines" / "cpu" / "property.jsonl"
    baseline.write_bytes(baseline.read_bytes()[:-10])
    (problem,) = _read(tmp_path).problems
    assert problem.file == "baseline"
    baseline.unlink()
    assert _read(tmp_path).problems == ()
    baseline.symlink_to(tmp_path / "nowhere")
    assert _read(tmp_path).problems[0].file == "baseline"


GOOD = {"run": "r", "lane": "cpu", "suite": "pool", "started": "2026-09-01T10:00:00Z"}


@pytest.mark.parametrize(
    "change", [{"run": ""}, {"lane": "../x"}, {"suite": "A"}, {"started": "now"}, {"run": 1}, {"lane": None}]
)
def test_run_file_is_checked(tmp_path: Path, change: dict[str, object]) -> None:
    """Every field of run.json is checked, and further fields are allowed."""
    path = tmp_path / "run.json"
    path.write_text(json.dumps(GOOD | {"more": 1}))
    assert read_run(path).suite == "pool"
    path.write_text(json.dumps(GOOD | change))
    with pytest.raises(RunFileError, match=r"run\.json"):
        read_run(path)
