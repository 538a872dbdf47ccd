"""The throughput suite itself, run as on a machine with a GPU, over an engine that plays recorded timings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ci.gate.rows import Row
from ci.gate.tests_seen import rows_of_tests
from ci.gate.verdict import Verdict
from ci.lanes.run import SuiteJob, run_suite
from ci.results.folder import read_suite_files
from ci.results.jsonl import Results
from ci.results.records import Subject

Left = tuple[dict[str, Row], Results | None]
Suite = Callable[..., Left]
PLAYED = ("-p", "tests.gate.commands.played_suite")
SESSION = "test_session[rtx4090-steps]"
SLOWDOWN = "test_slowdown_is_found[rtx4090-steps]"
POISONED = "test_poisoned_artifact_is_named[rtx4090-steps]"


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Run it with pytest's options, on engines with a fault; gives rows of its red tests and its records."""

    def run(
        *options: str, fault: str = "", in_process: bool = False
    ) -> tuple[dict[str, Row], Results | None]:
        played = tmp_path / f"machine{len(list(tmp_path.glob('machine*')))}"
        monkeypatch.setenv("PLAYED", str(played))
        monkeypatch.setenv("PLAYED_FAULT", fault)
        monkeypatch.setenv("FORKPROOF_IN_PROCESS", str(int(in_process)))
        job = SuiteJob(
            suite="throughput",
            lane="rtx4090",
            run_dir=tmp_path / "results" / "runs" / "rtx4090" / "throughput",
            arm_root=played / "patched",
            arm_roots={name: played / name for name in ("token-units", "patched")},
            subject=Subject("patched", "patched"),
            vllm="0.27.1",
            pytest_args=(*PLAYED, "-k", "rtx4090-steps", *options),
        )
        run_suite(job)
        files = read_suite_files(job.run_dir, tmp_path / "none.jsonl", "rtx4090", "throughput")
        assert files.junit is not None
        rows = rows_of_tests("rtx4090", "throughput", files.junit)
        return {row.case.rpartition("::")[2]: row for row in rows}, files.results

    return run


def test_a_whole_session(suite: Suite, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is seen while it runs, its boots are beside the runs, and the controls are red as they should be."""
    red, results = suite(in_process=True)
    assert red == {}
    assert results is not None
    values = {(one.case, one.metric): one.value for one in results.records}
    assert values["verify-prose-400", "isolated_step_ms"] == pytest.approx(4.0, rel=0.1)
    assert values["control-slowdown-verify", "red"] is values["control-poisoned-artifact", "red"] is True
    assert len(list(tmp_path.glob("results/throughput/rtx4090/any-gpu-verify/*/1/boots/*.json"))) == 4
    assert "boot 1 took" in capfd.readouterr().out


def test_a_session_that_is_there(suite: Suite) -> None:
    """Half a session shows no loss and refutes none; told to do nothing about it, the next run says so."""
    red, _ = suite("--blocks", "1")
    assert red.keys() == {SLOWDOWN}
    assert "boots are left to run" in red[SLOWDOWN].why
    more, _ = suite("--blocks", "1")
    assert more.keys() == {SESSION, SLOWDOWN, POISONED}
    assert "has not ended" in more[SESSION].why
    assert {row.verdict for row in (*red.values(), *more.values())} == {Verdict.INVALID}


def test_boots_that_cannot_be_compared(suite: Suite) -> None:
    """An invalid session is no regression."""
    red, results = suite(fault="no-cache")
    assert "unequal hits of the prefix cache" in red[SESSION].why
    assert {row.verdict for row in red.values()} == {Verdict.INVALID}
    assert results is not None
    assert {one.value for one in results.records if one.metric == "isolated_step_ms"} == {None}
