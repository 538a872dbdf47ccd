"""The suites that boot an engine on a GPU, run as they are, over engines that play."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci.gate.rows import Row
from ci.gate.tests_seen import rows_of_tests
from ci.gate.verdict import Verdict
from ci.lanes.run import SuiteJob, run_suite
from ci.results.folder import read_suite_files
from ci.results.records import Subject
from tests.gate.commands.played_boots import PATCHED
from tests.gate.commands.played_machine import ARMS
from tests.gate.commands.test_census import DEPTH_15

LANE = "rtx4090"
Left = tuple[dict[str, Row], dict[tuple[str, str], Any]]
Suite = Callable[..., Left]
SESSION = "test_session[rtx4090-steps]"
SLOWDOWN = "test_slowdown_is_found[rtx4090-steps]"
POISONED = "test_poisoned_artifact_is_named[rtx4090-steps]"
BOOTS = "throughput/rtx4090/any-gpu-verify/*/1/boots/*.json"


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Run one with pytest's options, on engines of a plan; gives the rows of red tests, and all values."""

    def run(name: str, *options: str, plan: Any = None, in_process: bool = False) -> Left:
        played = tmp_path / f"machine{len(list(tmp_path.glob('machine*')))}"
        monkeypatch.setenv("PLAYED", str(played))
        monkeypatch.setenv("PLAYED_SUITE", name)
        monkeypatch.setenv("PLAYED_PLAN", json.dumps(plan or {}))
        monkeypatch.setenv("FORKPROOF_IN_PROCESS", str(int(in_process)))
        job = SuiteJob(
            suite=name,
            lane=LANE,
            run_dir=tmp_path / "results" / "runs" / LANE / name,
            arm_root=played / ARMS[1],
            arm_roots={arm: played / arm for arm in ARMS},
            subject=Subject(ARMS[1], ARMS[1]),
            vllm="0.27.1",
            pytest_args=("-p", "tests.gate.commands.played_suite", *options),
        )
        run_suite(job)
        files = read_suite_files(job.run_dir, tmp_path / "none.jsonl", LANE, name)
        assert files.junit is not None
        assert files.results is not None
        rows = rows_of_tests(LANE, name, files.junit)
        values = {(one.case, one.metric): one.value for one in files.results.records}
        return {row.case.rpartition("::")[2]: row for row in rows}, values

    return run


def test_a_whole_session(suite: Suite, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is seen while it runs, its boots are beside the runs, and the controls are red as they should be."""
    red, values = suite("throughput", in_process=True)
    assert red == {}
    assert values["verify-prose-400", "isolated_step_ms"] == pytest.approx(4.0, rel=0.1)
    controls = {case: value for (case, metric), value in values.items() if metric == "red"}
    assert set(controls.values()) == {True}
    assert controls.keys() == {
        "control-cut-stream",
        "control-other-arm",
        "control-poisoned-artifact",
        "control-slowdown-verify",
    }
    assert len(list((tmp_path / "results").glob(BOOTS))) == 4
    assert "boot 1 took" in capfd.readouterr().out


def test_a_session_that_is_there(suite: Suite) -> None:
    """Half a session shows no loss and refutes none; told to do nothing about it, the next run says so."""
    red, _ = suite("throughput", "--blocks", "1", "-k", "rtx4090-steps")
    assert red.keys() == {SLOWDOWN}
    assert "boots are left to run" in red[SLOWDOWN].why
    more, _ = suite("throughput", "--blocks", "1")
    assert more.keys() == {SESSION, SLOWDOWN, POISONED}
    assert "has not ended" in more[SESSION].why
    assert {row.verdict for row in (*red.values(), *more.values())} == {Verdict.INVALID}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no-cache", "unequal hits of the prefix cache"),
        ("no-steps", "isolated_step_ms of prose-400 cannot be judged: boot 0: "),
        ("no-done", "a request failed"),
    ],
)
def test_boots_that_cannot_be_compared(suite: Suite, fault: str, words: str) -> None:
    """An invalid session is no regression, and no control is played on it, also where nothing was timed."""
    red, values = suite("throughput", plan={"fault": fault})
    assert red.keys() == {SESSION, SLOWDOWN, POISONED}
    assert words in red[SESSION].why
    assert {row.verdict for row in red.values()} == {Verdict.INVALID}
    assert values["verify-prose-400", "isolated_step_ms"] is None
    assert {case for case, metric in values if metric == "red"} == {"control-cut-stream", "control-other-arm"}


def test_answers(suite: Suite, tmp_path: Path) -> None:
    """Equal arms lose nothing, and the controls are red as they should be."""
    red, values = suite("quality")
    assert red == {}
    assert values["gsm8k", "p_loss"] == 1.0
    assert {value for (_, metric), value in values.items() if metric == "red"} == {True}
    (kept,) = (tmp_path / "results" / "quality" / LANE / "rtx4090-steps").iterdir()  # of these two arms
    assert sorted(path.name for path in kept.glob("*.json")) == ["A.json", "B.json"]
    suite("quality", "--fresh")
    assert len(list(kept.glob("*.json"))) == 4


def test_answers_that_cannot_be_compared(suite: Suite) -> None:
    """A reference without perplexities is no regression of the subject, and no control is played on it."""
    red, values = suite("quality", plan={"logprob": -1e6})
    assert "gives text en no perplexity" in red["test_answers"].why
    assert {row.verdict for row in red.values()} == {Verdict.INVALID}
    assert ("control-lost-items", "red") not in values


@pytest.mark.parametrize(
    ("plan", "words"), [({"wrong": 1}, "seen no loss at all"), ({"fault": "loop"}, "it is no reference")]
)
def test_answers_that_show_nothing(suite: Suite, plan: Any, words: str) -> None:
    """A reference with nothing right, or in loops, is refused, and no control is played on it."""
    red, values = suite("quality", plan=plan)
    assert words in red["test_answers"].why
    assert {row.verdict for row in red.values()} == {Verdict.INVALID}
    assert {case for case, metric in values if metric == "red"} == {"control-loop"}


def test_a_regression_from_no_reference(suite: Suite) -> None:
    """What is worse than a reference with nothing right is on record; controls are not played on that one."""
    red, values = suite("quality", plan={"wrong": 1, ARMS[1]: {"logprob": -0.51}})
    assert values["perplexity-en", "ratio"] == pytest.approx(1.01, rel=1e-3)
    assert red.keys() == {"test_lost_items_are_seen", "test_worse_text_is_seen"}
    assert {row.verdict for row in red.values()} == {Verdict.INVALID}


def test_rows(suite: Suite, tmp_path: Path) -> None:
    """Boots that adopt the pool pass every rule; an engine without breaks is a control that stayed green."""
    red, values = suite("membudget", "-k", "not left")
    assert red.keys() == {"test_break_is_seen[sequence-units]", "test_break_is_seen[declared-8]"}
    assert {value for (_, metric), value in values.items() if metric == "broken_rules"} == {0}
    assert {case for (case, metric), value in values.items() if metric == "red" and value} == {
        "control-unpatched"
    }
    rows = {f"boots-{seqs}" for seqs in (4, 16, 32)}
    assert {case for case, metric in values if metric == "kv_fall"} == rows
    assert len(list((tmp_path / "results").glob("boots/*/*/*/patched-*.json"))) == len(rows)


def test_rows_that_cannot_be_compared(suite: Suite) -> None:
    """An engine that does not start says nothing about the budget, and no control is played on it."""
    red, values = suite("membudget", "-k", "row or unpatched", plan={"patched": "nothing\n"})
    assert "test_unpatched_boot_is_seen" in red
    assert {row.verdict for row in red.values()} == {Verdict.INVALID}
    assert values["boots-16", "kv_fall"] is None
    assert "red" not in {metric for _, metric in values}


def test_census(suite: Suite) -> None:
    """A boot whose batches of every width are on 3D breaks no rule, and each damage to it is seen."""
    red, values = suite("census", plan={"patched": PATCHED + DEPTH_15})
    assert red == {}
    assert values["census", "widths_on_3d"] == 8
    assert {value for (_, metric), value in values.items() if metric == "red"} == {True}


def test_census_of_a_boot_that_failed(suite: Suite) -> None:
    """An engine that does not start has no batches that could be on the wrong kernel."""
    red, values = suite("census", plan={"patched": "nothing\n"})
    assert "no dispatch line" in red["test_rules"].why
    assert {row.verdict for row in red.values()} == {Verdict.INVALID}
    assert values == {}
