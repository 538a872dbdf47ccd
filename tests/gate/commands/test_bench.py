"""The bench compares what it says, on small inputs; times and limits are not asserted here."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.cli import main
from ci.commands import bench
from ci.commands.bench import (
    ClientCost,
    Cost,
    bench_client,
    bench_junit,
    bench_records,
    client_problems,
    junit_problems,
    record_problems,
)
from ci.results.files import MIB


def test_small_checkout_is_compared_and_the_worse_value_found(tmp_path: Path) -> None:
    """All records are compared, and exactly the planted one is regressed."""
    cost = bench_records(tmp_path / "x", 200)
    assert cost.status == 1
    last = (tmp_path / "x" / "output.txt").read_text().splitlines()[-1]
    assert last == "verdict: regressed - 1 regressed of 201 checks in 1 suite on cpu (exit 1)"


def test_small_report_is_read_and_the_failure_found(tmp_path: Path) -> None:
    """Every test of the report is counted, the last one is red."""
    assert bench_junit(tmp_path, 10_000).status == 1
    assert (tmp_path / "output.txt").read_text().split(" tests executed, ")[1] == "1 red\n"


GOOD = {10: Cost(1.0, 50 * MIB, 1), 1000: Cost(20.0, 200 * MIB, 1)}


@pytest.mark.parametrize(
    ("cost", "says"),
    [
        (Cost(30.1, 200 * MIB, 1), "took 30.1 s"),
        (Cost(1.0, 1537 * MIB, 1), "took 1537 MiB"),
        (Cost(1.0, 50 * 100 * MIB, 1), "as fast as the input"),
        (Cost(1.0, 200 * MIB, 0), "exit code 0, not 1"),
    ],
)
def test_each_limit_counts(cost: Cost, says: str) -> None:
    """Time, memory, growth and the verdict itself are judged."""
    assert record_problems(GOOD) == []
    assert any(says in problem for problem in record_problems(GOOD | {1000: cost}))


def test_junit_limits() -> None:
    """Memory and the verdict of the large report are judged."""
    assert junit_problems(Cost(1.0, 299 * MIB, 1)) == []
    assert junit_problems(Cost(1.0, 301 * MIB, 1)) != []
    assert junit_problems(Cost(1.0, 1, 0)) != []


def test_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes below the largest are measured as well; a problem is exit 1."""
    monkeypatch.setattr(bench, "bench_records", lambda _, size: Cost(1.0, size * MIB, 1))
    monkeypatch.setattr(bench, "bench_junit", lambda *_: Cost(1.0, MIB, 1))
    monkeypatch.setattr(bench, "bench_client", lambda: ClientCost(5.0, 5.001, 90.0, 80.0))
    monkeypatch.setattr(bench, "SIZES", (5, 10, 100))
    assert main(["bench", "--records", "20"]) == 1
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["5", "10", "20"]
    assert out.splitlines()[-1] == "verdict: regressed - memory grows as fast as the input (exit 1)"
    assert main(["bench", "--records", "5"]) == 0
    assert main(["bench", "--records", "0"]) == 2


def test_client_is_held_against_the_server_itself() -> None:
    """The server's own moments and the client's are of the same steps, which were sent as planned."""
    cost = bench_client(steps=20, step_s=0.002)
    assert cost.sent_ms == pytest.approx(2.0, rel=0.5)
    assert cost.measured_ms == pytest.approx(2.0, rel=0.5)
    assert cost.late_us > 0
    assert cost.cpu_us > 0


@pytest.mark.parametrize(("measured_ms", "fine"), [(5.0, True), (5.049, True), (5.051, False), (4.94, False)])
def test_client_limit(measured_ms: float, fine: bool) -> None:
    """A client that changes a step by a percent is a problem, in either direction."""
    assert (client_problems(ClientCost(5.0, measured_ms, 90.0, 80.0)) == []) is fine
