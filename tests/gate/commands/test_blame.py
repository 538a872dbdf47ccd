"""Blame walks the arms from none to all patches and names where a case turned red."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ci.cli import main
from ci.commands import blame
from ci.commands.blame import Step, conclude, step_of
from ci.errors import ExitCode
from ci.gate.rows import GateVerdict
from tests.gate.report.states import STATES
from tests.gate.samples import Sample


@pytest.mark.parametrize(
    ("reds", "code", "says"),
    [
        ([False, False, False], 0, "c passes on p2 and on every other arm"),
        ([True, True, False], 0, "c passes on p2; it was red on p0"),
        ([False, False, True], 1, "c is red from p2 on, green on p1"),
        ([False, True, True], 1, "c is red from p1 on, green on p0"),
        ([True, False, True], 1, "c is red from p2 on, green on p1"),
        ([True, True, True], 1, "c is red from p0 on: no arm passes"),
    ],
)
def test_conclusion(reds: list[bool], code: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The blamed arm is the first of the red ones that reach to the whole series."""
    steps = [Step(f"p{number}", red, "") for number, red in enumerate(reds)]
    assert conclude(steps, "c") == code
    assert says in capsys.readouterr().out


def _rows(name: str) -> GateVerdict:
    return STATES[name]()


def test_a_step_is_red_for_its_first_bad_row() -> None:
    """What does not pass is named; a case without any row is not green."""
    bad = step_of("x", _rows("regressed").rows)
    assert bad.red
    assert bad.why.startswith("grid violations: regressed")
    assert not step_of("x", _rows("pass").rows).red
    assert step_of("x", ()).red


def test_command_runs_every_arm_into_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runs of the arms do not replace the results that are looked at."""
    monkeypatch.chdir(Sample().write(tmp_path))
    monkeypatch.setenv("FORKPROOF_OUT", "out")
    monkeypatch.setattr(blame.review, "default_baselines", lambda: Path("baselines"))
    monkeypatch.setattr(
        blame, "plan_arms", lambda _: [argparse.Namespace(name=n) for n in ("stock", "patched")]
    )
    monkeypatch.setattr(blame, "read_series", lambda _: None)
    places = []

    def run_suites(args: argparse.Namespace, suites: Sequence[tuple[str, str]]) -> None:
        places.append((args.arm, os.environ["FORKPROOF_OUT"]))
        sample = Sample()
        if args.arm == "patched":
            sample.measure("grid", "violations", 5)
        target = sample.write(tmp_path / args.arm) / "out" / "runs"
        Path(os.environ["FORKPROOF_OUT"]).mkdir(parents=True)
        target.rename(Path(os.environ["FORKPROOF_OUT"]) / "runs")

    monkeypatch.setattr(blame, "run_suites", run_suites)
    assert main(["blame", "property", "grid", "--lane", "cpu"]) == ExitCode.REGRESSED
    assert places == [("stock", "out/blame/stock"), ("patched", "out/blame/patched")]
    assert os.environ["FORKPROOF_OUT"] == "out"
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "verdict: regressed - grid is red from patched on, green on stock (exit 1)"


def test_an_arm_is_not_asked_for() -> None:
    """Naming one arm contradicts walking through all."""
    assert main(["blame", "property", "grid", "--arm", "mq3d"]) == 2
