"""Blame walks the arms from none to all patches and names where a case turned red."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ci.cli import main
from ci.commands import blame
from ci.commands.blame import NoCaseError, Step, check_case, conclude, step_of
from ci.errors import ExitCode
from ci.gate.rows import Row
from ci.gate.verdict import Verdict
from tests.gate.report.states import STATES
from tests.gate.samples import JUNIT_TEXT, Sample, plan

KINDS = {
    "g": (Verdict.PASS, ExitCode.PASS),
    "r": (Verdict.REGRESSED, ExitCode.REGRESSED),
    "c": (Verdict.INVALID, ExitCode.CONTROL_FAILED),
    "m": (Verdict.MISSING, ExitCode.NO_VERDICT),
}


@pytest.mark.parametrize(
    ("kinds", "says"),
    [
        ("ggg", "pass - c passes on p2 and on every other arm (exit 0)"),
        ("rrg", "pass - c passes on p2; it was regressed on p0 (exit 0)"),
        ("mgg", "pass - c passes on p2; it was missing on p0 (exit 0)"),
        ("ggr", "regressed - c: regressed from p2 on, green on p1 (exit 1)"),
        ("grr", "regressed - c: regressed from p1 on, green on p0 (exit 1)"),
        ("rgr", "regressed - c: regressed from p2 on, green on p1 (exit 1)"),
        ("rrr", "regressed - c: regressed from p0 on: no arm passes (exit 1)"),
        ("mrr", "regressed - c: regressed from p1 on, missing on p0: no arm passes (exit 1)"),
        ("mgc", "control failed - c: control failed from p2 on, green on p1 (exit 3)"),
        ("mgmr", "missing - c: missing from p2 on, green on p1 (exit 2)"),
        ("mmm", "missing - c: missing from p0 on: no arm passes (exit 2)"),
    ],
)
def test_conclusion(kinds: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Blamed is the first arm behind the last green one; an arm that lacks the case is not red for it."""
    steps = [Step(f"p{number}", *KINDS[kind], "") for number, kind in enumerate(kinds)]
    code = conclude(steps, "c")
    assert capsys.readouterr().out == f"verdict: {says}\n"
    assert says.endswith(f"(exit {int(code)})")


def _rows(name: str) -> tuple[Row, ...]:
    return STATES[name]().rows


def test_a_step_is_red_for_its_worst_row() -> None:
    """What does not pass is named; a case without any row is not green; other cases do not matter."""
    bad = step_of("x", "grid", _rows("regressed"))
    assert (bad.red, bad.green, bad.word) == (True, False, "regressed")
    assert bad.why == "grid violations: differs from the accepted value (7 vectors -> 0 vectors)"
    assert step_of("x", "boot", _rows("regressed")).green
    assert step_of("x", "grid", _rows("pass")).green
    none = step_of("x", "other", _rows("pass"))
    assert (none.green, none.red, none.why) == (False, False, "the case was neither measured nor planned")


def test_an_arm_without_the_case_says_why() -> None:
    """A case that was not measured is not red, and the test that broke off is named."""
    sample = Sample()
    del sample.records["grid", "violations"]
    broken = '><failure message="no plan in this arm"/></testcase>'
    sample.junit_text = JUNIT_TEXT.replace('time="0.1"/>', broken, 1)
    step = step_of("stock", "grid", sample.verdict().rows)
    assert (step.red, step.green, step.word) == (False, False, "missing")
    assert step.why == "grid violations: planned, but the run has no result for it; a: no plan in this arm"
    test = step_of("stock", "*::a", sample.verdict().rows)
    assert (test.red, test.why) == (True, "t::a test: no plan in this arm")


def test_a_mistyped_case_runs_nothing() -> None:
    """The plan knows the cases; only the names of tests are not in it."""
    check_case(plan(), "cpu", "property", "gr*")
    check_case(plan(), "cpu", "property", "t::a")
    with pytest.raises(NoCaseError, match="no case of property on cpu matches 'gird'") as caught:
        check_case(plan(), "cpu", "property", "gird")
    assert caught.value.remedy == "one of: grid, boot, control-seq-rows"
    with pytest.raises(NoCaseError, match="no case of pool on cpu"):
        check_case(plan(), "cpu", "pool", "grid")


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
    assert (
        out.splitlines()[-1]
        == "verdict: regressed - grid: regressed from patched on, green on stock (exit 1)"
    )


def test_an_arm_is_not_asked_for() -> None:
    """Naming one arm contradicts walking through all."""
    assert main(["blame", "property", "grid", "--arm", "mq3d"]) == 2
