"""Explaining a case says all that its verdict hangs on."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from ci.cli import main
from ci.report.words import TRANSCRIBED
from tests.gate.samples import Sample


def _explain(*words: str) -> int:
    return main(["explain", *words, "--runs", "out/runs", "--baselines", "baselines"])


def test_a_red_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Expected, got, policy line with its origin, conditions, acceptance and the command are all there."""
    sample = Sample()
    sample.measure("boot", "step_ms", 11.0, "ms")
    monkeypatch.chdir(sample.write(tmp_path))
    assert _explain("boot", "--metric", "step_ms") == 1
    out = capsys.readouterr().out
    for line in (
        "cpu/property  boot  step_ms",
        "verdict:     regressed",
        "expected:    10.0 ms, passes up to 10.2",
        "got:         11.0 ms",
        "why:         +10.00%, the margin is 0.02",
        "policy:      policy.toml:19: rule 4 */boot/step_ms relative 0.02 lower-is-better",
        "origin:      noise of ten boots",
        "condition:   lane = cpu",
        "condition:   driver = 570.1",
        "by Ada: first run",
        "measured by: arm patched, series ab12,",
        "repeat:      python -m ci run property --lane cpu --arm patched",
    ):
        assert line in out, line
    assert out.splitlines()[-1] == "verdict: regressed - 1 regressed of 1 check in 1 suite on cpu (exit 1)"


def test_differing_conditions_show_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader sees what was accepted under what."""
    sample = Sample()
    sample.run_conditions["driver"] = "580"
    monkeypatch.chdir(sample.write(tmp_path))
    assert _explain("boot", "--red") == 2
    out = capsys.readouterr().out
    assert "condition:   driver: accepted under 570.1, measured under 580" in out
    assert out.count("verdict:     ") == 1


def test_green_rows_and_wildcards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every row that matches is explained; green is exit 0; a name that nothing has is a usage error."""
    monkeypatch.chdir(Sample().write(tmp_path))
    assert _explain("b*t") == 0
    assert capsys.readouterr().out.count("within its policy") == 2
    assert _explain("*", "--suite", "prop*") == 0
    assert _explain("no such case") == 2
    assert _explain("*", "--metric", "bites", "--red") == 2
    capsys.readouterr()
    assert _explain("*", "--red") == 0
    assert capsys.readouterr().out == "verdict: pass - nothing red of * (exit 0)\n"


def test_a_suite_that_did_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a run there is still the file row and the command."""
    root = Sample().write(tmp_path)
    (root / "out" / "runs" / "cpu" / "property" / "records.jsonl").unlink()
    monkeypatch.chdir(root)
    assert _explain("*") == 2
    out = capsys.readouterr().out
    assert "measured by: nothing: there is no usable run" in out
    assert "repeat:      python -m ci run property --lane cpu\n" in out


def test_a_case_of_a_suite_that_never_ran_is_told_from_a_mistyped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever asks about a planned case learns which suite measures it."""
    root = Sample().write(tmp_path)
    shutil.rmtree(root / "out" / "runs" / "cpu" / "property")
    monkeypatch.chdir(root)
    assert _explain("boot") == 2
    said = "".join(capsys.readouterr())
    assert "case 'boot' is planned in property on cpu, which has not run here" in said
    assert (
        "remedy: python -m ci run property --lane cpu; what is accepted: "
        "python -m ci trend 'cpu/property/boot/*'\n"
    ) in said
    assert _explain("bot") == 2
    assert "no row of a case 'bot'" in "".join(capsys.readouterr())


def test_a_transcribed_value_names_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copied baseline is marked, and its publication named."""
    sample = Sample()
    sample.accepted["boot", "bytes"] = msgspec.structs.replace(
        sample.accepted["boot", "bytes"], source="table 3"
    )
    monkeypatch.chdir(sample.write(tmp_path))
    assert _explain("boot", "--metric", "bytes") == 0
    out = capsys.readouterr().out
    assert TRANSCRIBED in out
    assert "source:      table 3" in out
