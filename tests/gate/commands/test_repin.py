"""The pin moves with every mark, or nothing moves."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from ci import cli
from ci.commands import repin
from ci.errors import ExitCode
from ci.results import files
from ci.results.drift import HunkFate, HunkState, PatchFate, PatchState, ReleaseFate
from ci.results.jsonl import read_baseline
from ci.results.records import Remeasure
from ci.stack.errors import DownloadError
from ci.stack.pin import PIN, PIN_FILE, parse_pin
from ci.stack.ranges import Counted
from ci.stack.repin import Move, Unmet
from tests.gate.samples import Sample

AFTER = dataclasses.replace(PIN, vllm="99.0.0", wheel="vllm-99.0.0-x-y-z.whl", wheel_sha256="0" * 64)


def moved(state: PatchState = PatchState.APPLIES, unmet: tuple[Unmet, ...] = ()) -> Move:
    """A move to a release on which the one patch has this state."""
    hunk = HunkState.CONFLICT if state is PatchState.CONFLICTS else HunkState.EXACT
    patch = PatchFate("a.patch", state, (HunkFate("vllm/m.py", 1, hunk, 1),))
    return Move(PIN, AFTER, ReleaseFate(1, AFTER.vllm, patches=(patch,)), unmet, Counted(5, 1))


def git(*words: str) -> str:
    """git in the folder of the test."""
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    return subprocess.run(["git", *identity, *words], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a pin, locks and baselines of two lanes; the release is there for the asking."""
    monkeypatch.chdir(tmp_path)
    Sample().write(tmp_path)
    (tmp_path / "baselines" / "gpu").mkdir()
    accepted = (tmp_path / "baselines" / "cpu" / "property.jsonl").read_bytes()
    (tmp_path / "baselines" / "gpu" / "oracle.jsonl").write_bytes(
        accepted.replace(b'"lane":"cpu"', b'"lane":"gpu"').replace(b'"suite":"property"', b'"suite":"oracle"')
    )
    (tmp_path / "baselines" / "gpu" / "aa.jsonl").write_bytes(b"noise\n")
    (tmp_path / "pin.toml").write_bytes(PIN_FILE.read_bytes())
    (tmp_path / "locks").mkdir()
    for name in repin.LOCKS:
        (tmp_path / "locks" / f"{name}.txt").write_text("torch==2.13.0\n")
    (tmp_path / ".gitignore").write_text("out/\ncache/\n")
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    monkeypatch.setenv("FORKPROOF_OUT", str(tmp_path / "out"))
    monkeypatch.setenv("FORKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(repin, "PIN_FILE", tmp_path / "pin.toml")
    monkeypatch.setattr(repin.review, "ROOT", tmp_path)
    monkeypatch.setattr(repin, "read_move", lambda *_: moved())
    return tmp_path


def test_pin_and_marks_move_together(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The pin is the release's, each baseline of each lane carries the mark, A/A files stay as they are."""
    assert cli.main(["repin", "99.0.0"]) == 0
    assert parse_pin((checkout / "pin.toml").read_text()) == AFTER
    for lane, suite in (("cpu", "property"), ("gpu", "oracle")):
        head = read_baseline(checkout / "baselines" / lane / f"{suite}.jsonl").head
        assert head.remeasure == Remeasure("99.0.0", f"the pin moved from vllm {PIN.vllm} to 99.0.0")
    assert git("status", "--porcelain").split() == [
        "M", "baselines/cpu/property.jsonl", "M", "baselines/gpu/oracle.jsonl", "M", "pin.toml",
    ]  # fmt: skip
    assert len(git("diff", "--numstat", "baselines").splitlines()) == 2
    assert "\n1\t1\t" in "\n" + git("diff", "--numstat", "baselines")
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        f"verdict: pass - pin moved from {PIN.vllm} to 99.0.0, 2 baselines marked for measuring anew (exit 0)"
    )


def test_the_comparison_is_red_from_then_on(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that passed before the move does not pass after it, and its results cannot be accepted."""
    assert cli.main(["diff", "--baselines", "baselines", "--runs", "out/runs", "--lane", "cpu"]) == 0
    assert cli.main(["repin", "99.0.0"]) == 0
    diff = ["diff", "--baselines", "baselines", "--runs", "out/runs", "--lane", "cpu"]
    assert cli.main(diff) == ExitCode.NO_VERDICT
    assert "marked for measuring anew on vllm 99.0.0" in capsys.readouterr().out
    accept = ["accept", "--baselines", "baselines", "--runs", "out/runs", "--lane", "cpu"]
    assert cli.main([*accept, "--suite", "property", "--why", "x", "--by", "me"]) == ExitCode.NO_VERDICT
    assert "this run is of 0.27.1" in capsys.readouterr().err


def test_a_dry_run_writes_the_report_only(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same words, and no file of git's changes."""
    assert cli.main(["repin", "99.0.0", "--dry-run"]) == 0
    assert git("status", "--porcelain") == ""
    assert "would move" in (checkout / "out" / "repin" / "repin.md").read_text()
    assert "pin would move" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize("name", ["pin.toml", "baselines/policy.toml", "baselines/cpu/new.jsonl"])
def test_uncommitted_changes_are_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Before anything is asked of the network; a dry run is allowed."""
    with (checkout / name).open("a") as stream:
        stream.write("# mine\n")
    before = (checkout / name).read_bytes()
    assert cli.main(["repin", "99.0.0"]) == ExitCode.NO_VERDICT
    assert f"changed and not committed: {name}" in capsys.readouterr().err
    assert (checkout / name).read_bytes() == before


def test_without_git_nobody_can_tell(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unpacked archive is no place to move a pin in."""
    (checkout / ".git").rename(checkout / "gone")
    assert cli.main(["repin", "99.0.0"]) == ExitCode.NO_VERDICT
    assert "move the pin in a clone" in capsys.readouterr().err


def test_a_failed_download_leaves_everything(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a report is written."""

    def fail(*_: object) -> Move:
        raise DownloadError("the network is gone")

    monkeypatch.setattr(repin, "read_move", fail)
    assert cli.main(["repin", "99.0.0"]) == ExitCode.NO_VERDICT
    assert git("status", "--porcelain") == ""
    assert not (checkout / "out" / "repin").exists()


def test_a_baseline_that_cannot_be_read_leaves_everything(checkout: Path) -> None:
    """A torn file is no ground to mark the others."""
    path = checkout / "baselines" / "gpu" / "oracle.jsonl"
    path.write_bytes(path.read_bytes()[:-3])
    git("commit", "-q", "-a", "-m", "torn")
    assert cli.main(["repin", "99.0.0"]) == ExitCode.NO_VERDICT
    assert git("status", "--porcelain") == ""


def test_a_write_that_fails_takes_the_others_back(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of three files cannot be written: the first is as it was."""
    real, calls = os.replace, []

    def replace(source: str, target: Path) -> None:
        if str(target).endswith(".jsonl"):
            calls.append(target)
            if len(calls) == 2:
                raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(files.os, "replace", replace)
    assert cli.main(["repin", "99.0.0"]) == ExitCode.NO_VERDICT
    assert len(calls) > 2
    assert git("status", "--porcelain") == ""


def test_a_conflict_is_a_regression_with_its_rework(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pin moves all the same, since the patch is redone on it; the exit code says that it is broken."""
    monkeypatch.setattr(repin, "read_move", lambda *_: moved(PatchState.CONFLICTS))
    assert cli.main(["repin", "99.0.0"]) == ExitCode.REGRESSED
    out = capsys.readouterr().out
    assert "1. redo for 99.0.0, hunk by hunk as listed above: a.patch" in out
    assert out.splitlines()[-1].endswith("1 of 1 patches conflict (exit 1)")
    assert parse_pin((checkout / "pin.toml").read_text()) == AFTER


def test_what_is_left_to_do_stands_in_order() -> None:
    """The patch, the locks, the build, then each lane with its suites."""
    unmet = (Unmet("torch", "2.13.0", "==2.14.0"), Unmet("numpy", "1", ">=2"))
    paths = [Path("baselines/cpu/pool.jsonl"), Path("baselines/gpu/a.jsonl"), Path("baselines/gpu/b.jsonl")]
    assert repin.left_to_do(moved(PatchState.UPSTREAM, unmet), paths) == [
        "take out of patches/series, since 99.0.0 has it: a.patch",
        "locks/torch.txt: torch 2.13.0, vllm 99.0.0 wants ==2.14.0",
        "locks/stack.in: numpy 1, vllm 99.0.0 wants >=2",
        "nox -s lock, once the lines above are right",
        "nox -s build; a build of the full flavour checks the whole wheel's sha256 as well",
        'nox -s pool, then nox -s accept -- --lane cpu --why "vllm 99.0.0"',
        'nox -s a b -- --lane gpu, then nox -s accept -- --lane gpu --why "vllm 99.0.0"',
    ]
    (first, *_) = repin.left_to_do(moved(PatchState.OFFSET), paths)
    assert first == "may stay as it is, though its lines moved: a.patch"
