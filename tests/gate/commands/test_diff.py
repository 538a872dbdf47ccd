"""What is on disk decides the exit code: every damage to a green checkout is seen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ci.cli import main
from ci.commands.diff import diff, series_hashes
from tests.gate.samples import PLAN_TEXT, Sample

RUN = Path("out/runs/cpu/property")
BASELINE = Path("baselines/cpu/property.jsonl")


@pytest.fixture
def green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a run that passes, as the working directory."""
    monkeypatch.chdir(Sample().write(tmp_path))
    return tmp_path


def _diff(*more: str) -> int:
    return main(["diff", "--runs", "out/runs", "--baselines", "baselines", *more])


def _last(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1]


@pytest.mark.usefixtures("green")
def test_green(capsys: pytest.CaptureFixture[str]) -> None:
    """The undamaged checkout passes."""
    assert _diff() == 0
    assert _last(capsys) == "verdict: pass - 5 checks in 1 suite on cpu (exit 0)"


@pytest.mark.usefixtures("green")
def test_edited_baseline_number(capsys: pytest.CaptureFixture[str]) -> None:
    """One edited number is exit 1, and one table row names everything."""
    text = BASELINE.read_text()
    BASELINE.write_text(text.replace('"metric":"violations","value":0', '"metric":"violations","value":7'))
    assert text != BASELINE.read_text()
    assert _diff() == 1
    out = capsys.readouterr().out
    (row,) = [line for line in out.splitlines() if "regressed" in line and "grid" in line]
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[:7] == ["regressed", "cpu", "property", "grid", "violations", "7 vectors", "0 vectors"]
    assert cells[7] == "policy.toml: rule 2 */*/violations exact"
    assert out.splitlines()[-1] == "verdict: regressed - 1 regressed of 5 checks in 1 suite on cpu (exit 1)"


def _delete(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _cut_last_line(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


@pytest.mark.usefixtures("green")
@pytest.mark.parametrize("name", ["records.jsonl", "junit.xml", "run.json"])
@pytest.mark.parametrize("damage", [_delete, _empty, _truncate])
def test_damaged_result_file(
    name: str, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A deleted, emptied or truncated file of the run is exit 2, and the file is named."""
    damage(RUN / name)
    assert _diff() == 2
    out = capsys.readouterr().out
    assert name in out
    assert out.splitlines()[-1].endswith("(exit 2)")


@pytest.mark.usefixtures("green")
def test_cleanly_cut_records() -> None:
    """Records cut at a line end parse, and what is gone is missing."""
    _cut_last_line(RUN / "records.jsonl")
    assert _diff() == 2


@pytest.mark.usefixtures("green")
@pytest.mark.parametrize("damage", [_delete, _empty, _truncate, _cut_last_line])
def test_damaged_baseline(damage: Callable[[Path], None]) -> None:
    """A baseline that is gone, broken or shorter is exit 2, never 0."""
    damage(BASELINE)
    assert _diff() == 2


@pytest.mark.usefixtures("green")
@pytest.mark.parametrize(
    ("option", "folder", "says"),
    [("--runs", "out/rums", "--runs out/rums: no such folder"), ("--baselines", "out", "plan.toml: no such")],
)
def test_a_mistyped_folder_is_no_empty_one(
    option: str, folder: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would read as if nothing had run, or had ever been accepted."""
    assert _diff(option, folder) == 2
    said = "".join(capsys.readouterr())
    assert says in said
    assert "remedy:" in said


@pytest.mark.usefixtures("green")
def test_a_report_into_a_pipe_replaces_nothing(tmp_path: Path) -> None:
    """What is no file is written into: there may be a reader, and a device must stay one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert _diff("--markdown", str(pipe)) == 0
    assert b"verdict" in os.read(reader, 1 << 20)
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.usefixtures("green")
@pytest.mark.parametrize("option", ["--markdown", "--summary", "--html", "--junit"])
def test_a_report_that_cannot_be_written_is_named(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A full disk is no fault of the gate: the error names the file, and there is no traceback."""
    assert _diff(option, "/dev/full") == 2
    said = "".join(capsys.readouterr())
    assert "error: /dev/full: cannot be written: No space left on device\n  remedy: " in said
    assert "Traceback" not in said


@pytest.mark.usefixtures("green")
def test_suite_that_did_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A planned suite without a run folder is missing."""
    shutil.rmtree(RUN)
    assert _diff() == 2
    assert "python -m ci run property --lane cpu" in capsys.readouterr().out
    shutil.rmtree("out")
    assert _diff() == 2


@pytest.mark.usefixtures("green")
def test_second_planned_suite_is_missing() -> None:
    """A green suite does not cover for a planned one that did not run."""
    Path("baselines/plan.toml").write_text(
        PLAN_TEXT + PLAN_TEXT.replace("schema = 1", "").replace("property", "pool")
    )
    assert _diff() == 2


@pytest.mark.usefixtures("green")
@pytest.mark.parametrize("place", ["out/runs/cpu/extra", "out/runs/gtx1080/property"])
def test_unplanned_run_is_named(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A run of a suite or lane that is not planned is shown, and no pass."""
    shutil.copytree(RUN, place)
    assert _diff() == 2
    assert place.rsplit("/", 1)[1] in capsys.readouterr().out


@pytest.mark.usefixtures("green")
def test_forgotten_baseline_is_named() -> None:
    """A baseline of a suite that is neither planned nor run is missing its result."""
    shutil.copy(BASELINE, "baselines/cpu/old.jsonl")
    assert _diff() == 2


@pytest.mark.usefixtures("green")
def test_run_moved_to_another_suite() -> None:
    """A green run copied over another suite's folder does not make that suite green."""
    Path("baselines/plan.toml").write_text(
        PLAN_TEXT + PLAN_TEXT.replace("schema = 1", "").replace("property", "pool")
    )
    shutil.copytree(RUN, "out/runs/cpu/pool")
    shutil.copy(BASELINE, "baselines/cpu/pool.jsonl")
    assert _diff() == 2


@pytest.mark.usefixtures("green")
@pytest.mark.parametrize("name", ["plan.toml", "policy.toml"])
@pytest.mark.parametrize("damage", [_delete, _empty, lambda path: path.write_bytes(b"\xff")])
def test_damaged_rules(name: str, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]) -> None:
    """Without a usable plan and policy there is no verdict, and the file is named."""
    damage(Path("baselines") / name)
    assert _diff() == 2
    assert name in capsys.readouterr().err


@pytest.mark.usefixtures("green")
def test_removed_policy_rule() -> None:
    """A planned metric whose rule was removed is an error."""
    path = Path("baselines/policy.toml")
    path.write_text(path.read_text().replace("*/boot/bytes", "*/other/bytes"))
    assert _diff() == 2


@pytest.mark.usefixtures("green")
def test_markdown_file() -> None:
    """The Markdown report is written beside the console report and carries the same verdict."""
    assert _diff("--markdown", "out/report/diff.md") == 0
    text = Path("out/report/diff.md").read_text()
    assert text.startswith("<!-- forkproof:verdict -->\n### ✅ pass\n")


@pytest.mark.usefixtures("green")
def test_unknown_lane() -> None:
    """A mistyped lane is a usage error and no empty pass."""
    assert _diff("--lane", "cpuu") == 2
    assert _diff("--lane", "cpu") == 0


def test_failed_control_is_exit_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control that stayed green ends in 3."""
    sample = Sample()
    sample.measure("control-seq-rows", "red", False, "bool", control=True)
    monkeypatch.chdir(sample.write(tmp_path))
    assert _diff() == 3


@pytest.mark.usefixtures("green")
def test_all_reports_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Page, JUnit and summary are written beside the console report; the summary is appended to."""
    Path("summary.md").write_text("before\n")
    assert (
        _diff("--html", "out/page.html", "--junit", "out/v.xml", "--summary", "summary.md", "--annotations")
        == 0
    )
    assert Path("out/page.html").read_text().startswith("<!doctype html>")
    assert b"<testsuites" in Path("out/v.xml").read_bytes()
    assert Path("summary.md").read_text().startswith("before\n<!-- forkproof:verdict -->")
    assert "::" not in capsys.readouterr().out


@pytest.mark.usefixtures("green")
def test_annotations_stand_before_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Commands for the runner are printed, and the verdict stays the last line."""
    text = BASELINE.read_text()
    BASELINE.write_text(text.replace('"metric":"violations","value":0', '"metric":"violations","value":7'))
    assert _diff("--annotations") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("::error title=regressed%3A cpu/property grid violations::")
    assert lines[-1].startswith("verdict: regressed")


def test_what_is_not_due_is_not_missed_and_what_came_is_seen(tmp_path: Path) -> None:
    """A job that another event has does not turn this one red; a run that nobody asked for is compared."""
    root = Sample(plan_text=PLAN_TEXT + PLAN_TEXT.partition("\n")[2].replace("property", "other")).write(
        tmp_path
    )
    runs, baselines = root / "out" / "runs", root / "baselines"

    def suites(*not_due: tuple[str, str]) -> list[str]:
        return [one.suite for one in diff(runs, baselines, ["cpu"], not_due).suites]

    assert suites() == ["property", "other"]
    assert suites(("cpu", "other")) == ["property"]
    assert suites(("cpu", "property")) == ["property", "other"]
    assert suites(("gpu", "other")) == ["property", "other"]


@pytest.mark.usefixtures("green")
def test_results_of_other_patches_are_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run from before a patch was edited keeps its verdict; a note says that it is not about the patch."""
    assert _diff() == 0
    assert "cpu/property: measured on patched ab12, and the patches now make " in capsys.readouterr().out
    current = series_hashes()["patched"]
    records = RUN / "records.jsonl"
    records.write_text(records.read_text().replace('"ab12"', f'"{current}"'))
    assert _diff() == 0
    assert "measured on" not in capsys.readouterr().out
    monkeypatch.setenv("FORKPROOF_SERIES", str(tmp_path / "nothing"))
    assert series_hashes() == {}
    assert _diff() == 0
