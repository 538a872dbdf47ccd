"""Accepting writes what was measured, once, for all chosen suites or for none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ci.cli import main
from ci.proof.checkout import Checkout, boots
from ci.results.aa import read_aa
from ci.results.jsonl import read_baseline
from ci.results.records import Record
from tests.gate.samples import PLAN_TEXT, POLICY_TEXT, Sample, full_disk

BASELINE = Path("baselines/cpu/property.jsonl")
WHY = ("--why", "new pin")


def _accept(*more: str) -> int:
    return main(["accept", "--runs", "out/runs", "--baselines", "baselines", "--by", "Bob", *more])


def _diff() -> int:
    return main(["diff", "--runs", "out/runs", "--baselines", "baselines"])


def test_new_results_become_a_baseline_that_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """new -> accept -> pass, and accepting again leaves the file as it is."""
    monkeypatch.chdir(Sample(has_baseline=False).write(tmp_path))
    assert _diff() == 2
    assert _accept("--why", "first run") == 0
    assert _diff() == 0
    first = BASELINE.read_bytes()
    modified = BASELINE.stat().st_mtime_ns
    assert _accept("--why", "again") == 0
    assert (BASELINE.read_bytes(), BASELINE.stat().st_mtime_ns) == (first, modified)


def test_a_rerun_without_change_is_a_no_op(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another run with the same numbers does not touch the file."""
    monkeypatch.chdir(Sample().write(tmp_path))
    before = BASELINE.read_bytes()
    Sample(run="r2", head_run="r2", has_baseline=False).write(tmp_path)
    assert _accept("--why", "rerun") == 0
    assert BASELINE.read_bytes() == before
    assert capsys.readouterr().out.splitlines()[-1] == "verdict: pass - accepted: nothing changed (exit 0)"


def test_whole_takes_what_passes_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --whole a rerun's values all carry this acceptance."""
    monkeypatch.chdir(Sample().write(tmp_path))
    assert _accept("--whole", "--why", "another kernel") == 0
    assert "confirmed grid violations: 0 vectors -> 0 vectors" in capsys.readouterr().out
    assert {one.accepted.why for one in read_baseline(BASELINE).records} == {"another kernel"}


def test_change_is_printed_and_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The changed record carries who and why, and the output shows both values."""
    sample = Sample()
    sample.measure("grid", "violations", 3)
    monkeypatch.chdir(sample.write(tmp_path))
    assert _accept("--suite", "property", "--case", "gr?d", "--why", "grid extended") == 0
    out = capsys.readouterr().out
    assert "changed   grid violations: 0 vectors -> 3 vectors" in out
    end = "accepted: 1 values changed; review them with: git diff baselines"
    assert out.splitlines()[-1] == f"verdict: pass - {end} (exit 0)"
    (changed,) = [one for one in read_baseline(BASELINE).records if one.accepted.by == "Bob"]
    assert (changed.case, changed.value, changed.accepted.why) == ("grid", 3, "grid extended")
    assert len(BASELINE.read_bytes().splitlines()) == 6


def test_a_value_beyond_a_limit_of_the_policy_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next comparison would be red all the same, so nothing is written, and the error names the line."""
    sample = Sample(policy_text=POLICY_TEXT.replace('kind = "at-most"', 'kind = "at-most"\nlimit = 2000'))
    sample.measure("boot", "bytes", 2048, "bytes")
    sample.measure("grid", "violations", 3)
    monkeypatch.chdir(sample.write(tmp_path))
    before = BASELINE.read_bytes()
    assert _accept("--why", "larger") == 2
    assert BASELINE.read_bytes() == before
    said = "".join(capsys.readouterr())
    assert "2048 bytes would be regressed against itself: above the limit 2000" in said
    assert "policy.toml: rule 3 */boot/bytes at-most 2000 decides without regard" in said
    assert said.splitlines()[-1].endswith("(exit 2)")


def test_a_suite_is_accepted_where_it_ran_though_another_lane_has_runs_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results that another machine sent do not stand in the way; a lane that is named must know the suite."""
    sample = Sample()
    sample.measure("grid", "violations", 3)
    monkeypatch.chdir(sample.write(tmp_path))
    Path("out/runs/rtx3090/oracle").mkdir(parents=True)
    assert _accept("--why", "x", "--suite", "property", "--lane", "rtx3090") == 2
    assert "suite 'property' is not known on lane rtx3090" in "".join(capsys.readouterr())
    assert _accept("--why", "x", "--suite", "properties") == 2
    assert _accept("--why", "x", "--suite", "property") == 0
    assert "changed   grid violations: 0 vectors -> 3 vectors" in capsys.readouterr().out


def test_all_suites_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When one suite is refused, nothing is written for another."""
    sample = Sample()
    sample.measure("grid", "violations", 3)
    monkeypatch.chdir(sample.write(tmp_path))
    Path("baselines/plan.toml").write_text(
        PLAN_TEXT + PLAN_TEXT.replace("schema = 1", "").replace("property", "zz")
    )
    shutil.copytree("out/runs/cpu/property", "out/runs/cpu/zz")
    before = BASELINE.read_bytes()
    assert _accept("--why", "x") == 2
    assert BASELINE.read_bytes() == before
    assert _accept("--why", "x", "--suite", "property") == 0
    assert BASELINE.read_bytes() != before


@pytest.mark.parametrize("whole", [0, 1, 2])
def test_a_full_disk_accepts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], whole: int
) -> None:
    """Whichever of two baselines and the A/A file does not fit, none of them is written, and it is said."""
    checkout = Checkout(tmp_path / "x").write()
    aa = boots(0.0, "aa2", ("patched", "patched"))
    checkout.measure(Record("speed", "step_ms", 10.0, "ms", sessions=(aa,)))
    monkeypatch.chdir(checkout.root)
    Path("baselines/cpu/second.jsonl").unlink()
    before = {path: path.read_bytes() for path in Path("baselines/cpu").iterdir()}
    full_disk(monkeypatch, whole)
    assert main(["accept", "--runs", "runs", "--baselines", "baselines", "--by", "Bob", "--whole", *WHY]) == 2
    assert {path: path.read_bytes() for path in Path("baselines/cpu").iterdir()} == before
    said = "".join(capsys.readouterr())
    assert "cannot be written: No space left on device" in said
    assert "added" not in said
    monkeypatch.undo()
    monkeypatch.chdir(checkout.root)
    assert main(["accept", "--runs", "runs", "--baselines", "baselines", "--by", "Bob", "--whole", *WHY]) == 0
    assert "12 values changed, 1 A/A sessions added" in capsys.readouterr().out


def test_suite_that_did_not_run_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --suite only what has run is accepted, and the rest is named; asked for, it is refused."""
    monkeypatch.chdir(Sample().write(tmp_path))
    Path("baselines/plan.toml").write_text(
        PLAN_TEXT + PLAN_TEXT.replace("schema = 1", "").replace("property", "zz")
    )
    assert _accept("--why", "x") == 0
    assert "cpu/zz: has not run, stays as it is" in capsys.readouterr().out
    assert _accept("--why", "x", "--suite", "zz") == 2


@pytest.mark.parametrize(
    "more",
    [
        ("--why", " "),
        ("--why", "two\nlines"),
        ("--why", "x" * 501),
        ("--why", "x", "--suite", "propert"),
        ("--why", "x", "--lane", "h100"),
        ("--why", "x", "--case", "nothing"),
        (),
    ],
)
def test_unusable_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]) -> None:
    """A missing reason or a mistyped name is refused and writes nothing."""
    sample = Sample()
    sample.measure("grid", "violations", 3)
    monkeypatch.chdir(sample.write(tmp_path))
    before = BASELINE.read_bytes()
    assert _accept(*more) == 2
    assert BASELINE.read_bytes() == before


def test_no_run_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to accept is an error."""
    monkeypatch.chdir(Sample().write(tmp_path))
    shutil.rmtree("out")
    assert _accept("--why", "x") == 2


def test_name_comes_from_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --by the name that git knows is stored."""
    monkeypatch.chdir(Sample(has_baseline=False).write(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.name")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "Grace H")
    assert main(["accept", "--runs", "out/runs", "--baselines", "baselines", "--why", "x"]) == 0
    assert {one.accepted.by for one in read_baseline(BASELINE).records} == {"Grace H"}


def test_aa_sessions_are_added_to_the_lane_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An arm measured against itself becomes part of the lane's noise; accepting again adds nothing."""
    checkout = Checkout(tmp_path / "x").write()
    aa = boots(0.0, "aa2", ("patched", "patched"))
    checkout.measure(Record("speed", "step_ms", 10.0, "ms", sessions=(aa,)))
    monkeypatch.chdir(checkout.root)
    words = ("accept", "--runs", "runs", "--baselines", "baselines", "--by", "Bob", "--why", "noise")
    assert main([*words]) == 0
    out = capsys.readouterr().out
    assert "cpu/sample: 1 A/A sessions added to baselines/cpu/aa.jsonl" in out
    assert out.splitlines()[-1] == (
        "verdict: pass - accepted: 1 A/A sessions added; review them with: git diff baselines (exit 0)"
    )
    path = Path("baselines/cpu/aa.jsonl")
    assert [one.session.run for one in read_aa(path)] == ["aa1", "aa2"]
    before = path.read_bytes()
    assert main([*words]) == 0
    assert path.read_bytes() == before
    assert capsys.readouterr().out.splitlines()[-1] == "verdict: pass - accepted: nothing changed (exit 0)"
