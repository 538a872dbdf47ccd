"""One run folder gets its own verdict, in print and in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.cli import main
from ci.commands.verdict import conclude, conclude_all
from ci.errors import ExitCode, GateError, UsageError
from tests.gate.samples import Sample


def _run_dir(root: Path) -> Path:
    return root / "out" / "runs" / "cpu" / "property"


def test_verdict_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The code, the last line and verdict.json agree."""
    Sample().write(tmp_path)
    assert conclude(_run_dir(tmp_path), tmp_path / "baselines") is ExitCode.PASS
    assert capsys.readouterr().out.splitlines()[-1] == "verdict: pass - 5 checks in 1 suite on cpu (exit 0)"
    written = json.loads((_run_dir(tmp_path) / "verdict.json").read_text())
    assert (written["verdict"], written["exit_code"]) == ("pass", 0)


def test_red_verdict_replaces_an_older_one(tmp_path: Path) -> None:
    """verdict.json always is the last verdict."""
    Sample().write(tmp_path)
    conclude(_run_dir(tmp_path), tmp_path / "baselines")
    (_run_dir(tmp_path) / "records.jsonl").unlink()
    assert conclude(_run_dir(tmp_path), tmp_path / "baselines") is ExitCode.NO_VERDICT
    written = json.loads((_run_dir(tmp_path) / "verdict.json").read_text())
    assert (written["verdict"], written["exit_code"]) == ("missing", 2)


def test_failed_control(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A green control is exit 3 and says so."""
    sample = Sample()
    sample.measure("control-seq-rows", "red", False, "bool", control=True)
    sample.write(tmp_path)
    assert conclude(_run_dir(tmp_path), tmp_path / "baselines") is ExitCode.CONTROL_FAILED
    assert "verdict: control failed - control cpu/property control-seq-rows" in capsys.readouterr().out


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    """A run that left no folder is missing, and no folder is made for it."""
    Sample().write(tmp_path)
    folder = tmp_path / "elsewhere" / "cpu" / "property"
    assert conclude(folder, tmp_path / "baselines") is ExitCode.NO_VERDICT
    assert not folder.exists()


def test_several_folders_in_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two folders join into one verdict, and each keeps its own file."""
    good, bad = Sample(), Sample()
    bad.measure("grid", "violations", 1)
    good.write(tmp_path / "a")
    bad.write(tmp_path / "b")
    folders = [_run_dir(tmp_path / "a"), _run_dir(tmp_path / "b")]
    assert conclude_all(folders, tmp_path / "a" / "baselines") is ExitCode.REGRESSED
    assert capsys.readouterr().out.count("verdict:") == 1
    codes = [json.loads((folder / "verdict.json").read_text())["exit_code"] for folder in folders]
    assert codes == [0, 1]


def test_other_paths_are_refused(tmp_path: Path) -> None:
    """A path that does not end in lane and suite is no run folder."""
    Sample().write(tmp_path)
    for folder in (tmp_path / "A B" / "property", Path("/")):
        with pytest.raises(UsageError, match="not a run folder"):
            conclude(folder, tmp_path / "baselines")


def test_verdict_is_written_into_run_folders_only(tmp_path: Path) -> None:
    """A folder without run.json is judged, but nothing is left in it."""
    Sample().write(tmp_path)
    folder = tmp_path / "some" / "notes"
    folder.mkdir(parents=True)
    assert conclude(folder, tmp_path / "baselines") is ExitCode.NO_VERDICT
    assert list(folder.iterdir()) == []


def test_a_folder_named_twice_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two spellings of one folder are one suite."""
    Sample().write(tmp_path)
    folder = _run_dir(tmp_path)
    conclude_all([folder, folder / ".." / folder.name], tmp_path / "baselines")
    assert "5 checks in 1 suite on cpu" in capsys.readouterr().out


def test_broken_rules_are_an_error(tmp_path: Path) -> None:
    """Without a policy there is nothing to conclude by."""
    Sample().write(tmp_path)
    (tmp_path / "baselines" / "policy.toml").unlink()
    with pytest.raises(GateError, match=r"policy\.toml"):
        conclude(_run_dir(tmp_path), tmp_path / "baselines")


def test_command(tmp_path: Path) -> None:
    """The command judges a folder again."""
    Sample().write(tmp_path)
    assert main(["verdict", str(_run_dir(tmp_path)), "--baselines", str(tmp_path / "baselines")]) == 0
