from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ci.results.jsonl import read_results
from ci.results.recorder import UnusableRecordError, check_record
from ci.results.records import SCHEMA_VERSION, Record, RunHead, Subject

ROOT = Path(__file__).parents[3]
HEAD = RunHead(
    schema=SCHEMA_VERSION,
    run="r1",
    lane="cpu",
    suite="tiny",
    started="2026-01-02T03:04:05+00:00",
    subject=Subject("patched", "00"),
    conditions={"lane": "cpu"},
)
GREEN = """
def test_grid(measure):
    measure("grid", "violations", 0, unit="vectors")
    measure("grid", "eligible", 12, unit="vectors")

def test_other(measure):
    measure("other", "worst", None, unit="bytes", reason="no line says it")

def test_control(measure):
    measure.control("seq-rows", red=True, metric="violations", value=7, unit="vectors")
"""

Suite = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """Run a suite of one file with the plugin, in a process of its own."""

    def run(source: str, *options: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / "head.json").write_bytes(msgspec.json.encode(HEAD))
        (tmp_path / "test_tiny.py").write_text(source)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "ci.results.recorder"]
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        env |= {
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "FORKPROOF_RUN_DIR": str(tmp_path / "run"),
            "FORKPROOF_ARM_ROOT": str(tmp_path / "arm"),
        }
        return subprocess.run(
            [*command, *options, "test_tiny.py"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def values(tmp_path: Path) -> dict[tuple[str, str], object]:
    """What the records file says, by case and metric."""
    results = read_results(tmp_path / "run" / "records.jsonl")
    return {(record.case, record.metric): record.value for record in results.records}


EXPECTED = {
    ("grid", "eligible"): 12,
    ("grid", "violations"): 0,
    ("other", "worst"): None,
    ("seq-rows", "red"): True,
    ("seq-rows", "violations"): 7,
}


@pytest.mark.parametrize("workers", ["0", "2"])
def test_every_record_arrives_from_any_worker(suite: Suite, tmp_path: Path, workers: str) -> None:
    """With and without xdist the file holds each record once, below the head of the run."""
    done = suite(GREEN, "-n", workers)
    assert done.returncode == 0, done.stdout
    assert values(tmp_path) == EXPECTED
    results = read_results(tmp_path / "run" / "records.jsonl")
    assert results.head == HEAD
    assert {record.case for record in results.records if record.control} == {"seq-rows"}


def test_records_do_not_crowd_the_junit_file(suite: Suite, tmp_path: Path) -> None:
    """What travelled on the reports is taken off them before the JUnit file is written."""
    suite(GREEN, "-n", "2", "--junitxml=junit.xml")
    assert "forkproof-record" not in (tmp_path / "junit.xml").read_text()


def test_a_failed_test_keeps_what_it_measured(suite: Suite, tmp_path: Path) -> None:
    """A red run is recorded like a green one; the verdict is somebody else's task."""
    done = suite("def test_a(measure):\n    measure('a', 'n', 3, unit='rows')\n    assert False\n")
    assert done.returncode == 1
    assert values(tmp_path) == {("a", "n"): 3}


def test_a_doubled_record_in_one_test_is_an_error(suite: Suite) -> None:
    """The second record of one case and metric fails its test and names both places."""
    done = suite(
        "def test_a(measure):\n    measure('a', 'n', 3, unit='rows')\n    measure('a', 'n', 4, unit='rows')\n"
    )
    assert done.returncode == 1
    assert "case 'a' metric 'n' is recorded twice" in done.stdout


def test_a_doubled_record_across_workers_stops_the_run(suite: Suite, tmp_path: Path) -> None:
    """Two workers cannot see each other's records; the controller does, stops and leaves no file."""
    source = "import time\n" + "".join(
        f"def test_{name}(measure):\n    measure('a', 'n', 3, unit='rows')\n    time.sleep(0.2)\n"
        for name in "ab"
    )
    done = suite(source, "-n", "2")
    assert done.returncode not in {0, 1}
    assert "recorded twice" in done.stdout + done.stderr
    assert not (tmp_path / "run" / "records.jsonl").exists()


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("import os\ndef test_a(measure):\n    measure('a', 'n', 3, unit='rows')\n    os._exit(0)\n", ()),
        ("def test_a(measure):\n    raise KeyboardInterrupt\n", ()),
        ("import nothing_like_this\n", ()),
        (GREEN, ("-k", "nothing_like_this")),
        (GREEN, ("--no-such-option",)),
    ],
    ids=["death", "interrupt", "collection error", "no test selected", "usage error"],
)
def test_a_disorderly_end_leaves_no_records(
    suite: Suite, tmp_path: Path, source: str, options: tuple[str, ...]
) -> None:
    """A session that did not run its tests to the end leaves nothing that could be read as a result."""
    suite(source, *options)
    assert not (tmp_path / "run" / "records.jsonl").exists()


def test_a_dead_worker_takes_its_record_along(suite: Suite, tmp_path: Path) -> None:
    """The record of a crashed worker is missing from the file, and the session is red."""
    done = suite(
        "import os\n"
        "def test_a(measure):\n    measure('a', 'n', 3, unit='rows')\n    os._exit(1)\n"
        "def test_b(measure):\n    measure('b', 'n', 4, unit='rows')\n",
        "-n",
        "2",
    )
    assert done.returncode == 1
    assert ("a", "n") not in values(tmp_path)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (Record("a", "n", float("nan"), "ms"), "nan is not a number"),
        (Record("a", "n", float("-inf"), "ms"), "-inf is not a number"),
        (Record("a", "n", None, "ms"), "without a reason"),
        (Record("a", "n", 1 << 63, "rows"), "64 bits"),
        (Record("", "n", 1, "rows"), "must not be empty"),
        (Record("a", "n", 1, ""), "must not be empty"),
        (Record("a", "n", [1], "rows"), "list is not a value"),  # type: ignore[arg-type]
    ],
)
def test_what_no_file_can_hold_is_refused_where_it_is_measured(record: Record, message: str) -> None:
    """An unusable value fails the test that measured it, with the case and metric in the message."""
    with pytest.raises(UnusableRecordError, match=message):
        check_record(record)


def test_a_check_that_never_reached_the_arm_is_red(suite: Suite, tmp_path: Path) -> None:
    """A green test whose wrapped function was never called ends as an error."""
    (tmp_path / "arm").mkdir()
    (tmp_path / "arm" / "kernels.py").write_text("def rows(n):\n    return n\n")
    source = (
        "import sys; sys.path.insert(0, 'arm')\nimport kernels\n"
        "def test_called(reached):\n"
        "    counter = reached(kernels, 'rows')\n    kernels.rows(1)\n    assert counter.calls == 1\n"
        "def test_not_called(reached):\n    reached(kernels, 'rows')\n"
    )
    done = suite(source)
    assert done.returncode == 1
    assert "2 passed, 1 error" in done.stdout
    assert "kernels.rows was never called" in done.stdout


def test_a_suite_adds_a_condition(suite: Suite, tmp_path: Path) -> None:
    """What only the suite knows of its conditions stands in the head of its records, beside the others."""
    done = suite(
        """
from ci.results.recorder import add_conditions

def test_served(measure):
    measure("grid", "violations", 0, unit="vectors")
    add_conditions({"engine": "in-process"})
"""
    )
    assert done.returncode == 0, done.stdout
    head = read_results(tmp_path / "run" / "records.jsonl").head
    assert head.conditions == {"lane": "cpu", "engine": "in-process"}


def test_sessions_travel_with_their_record(suite: Suite, tmp_path: Path) -> None:
    """The boots of a paired metric stand in its record."""
    suite(
        """
from ci.results.records import AbSession

def test_pairs(measure):
    session = AbSession("r", ("a", "b"), "ABBA", (4.0, 4.1, 3.9, 4.0))
    measure("p", "step_ms", 4.0, unit="ms", sessions=(session,))
"""
    )
    (record,) = read_results(tmp_path / "run" / "records.jsonl").records
    assert record.sessions[0].order == "ABBA"
    assert record.sessions[0].values == (4.0, 4.1, 3.9, 4.0)
