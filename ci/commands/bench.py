"""``python -m ci bench``: what the gate takes for a million records and for a very large test report."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ci.commands import review
from ci.engine.client import stream
from ci.errors import ExitCode, UsageError
from ci.proof.large import write_large_checkout, write_large_junit
from ci.results.files import MIB

SIZES = (10_000, 100_000, 1_000_000)
LIMIT_S, LIMIT_BYTES = 30.0, 1536 * MIB
"""For the largest size; asked for by the people who keep all results of a year in one file."""
JUNIT_BYTES, JUNIT_LIMIT_BYTES = 300 * MIB, 300 * MIB
READ_JUNIT = """\
import sys
from pathlib import Path
from ci.results.junit import read_junit
report = read_junit(Path(sys.argv[1]))
print(report.executed, "tests executed,", sum(case.state.red for case in report.cases), "red")
sys.exit(1 if report.red else 0)
"""
STEPS, STEP_S, CLIENT_SHARE = 1000, 0.005, 0.01
"""A stream of five seconds, whose steps the client may make longer by so much."""
EXAMPLES = """\
examples:
  python -m ci bench                    a million records, a report of 300 MB; two minutes and 1 GB of disk
  python -m ci bench --records 10000    a small one
"""


@dataclass(frozen=True)
class Cost:
    """What a child process took."""

    seconds: float
    peak_bytes: int
    status: int


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "bench",
        help="measure time and memory of the comparison itself",
        description="Compare 10,000, 100,000 and 1,000,000 records with as many baselines, read a JUnit "
        "file of 300 MB, each in a process of its own, and read a stream of 5 ms steps. "
        "Exit code 1 if a limit is exceeded.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--records", type=int, default=SIZES[-1], help="the largest size (default: %(default)s)"
    )
    parser.add_argument("--junit-mib", type=int, default=JUNIT_BYTES // MIB, help="default: %(default)s")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Measure, print one line per size, and return whether all limits are kept."""
    if args.records < 1 or args.junit_mib < 1:
        raise UsageError("--records and --junit-mib are numbers from 1")
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="forkproof-bench-") as folder:
        sizes = sorted({*(size for size in SIZES if size < args.records), args.records})
        costs = {size: bench_records(Path(folder, str(size)), size) for size in sizes}
        for size, cost in costs.items():
            review.say(f"{size:>9} records: {_show(cost)}\n")
        problems += record_problems(costs)
        cost = bench_junit(Path(folder), args.junit_mib * MIB)
        review.say(f"{args.junit_mib:>5} MiB JUnit: {_show(cost)}\n")
        problems += junit_problems(cost)
    client = bench_client()
    review.say(f"{STEPS:>5} steps of 5 ms: {client.words}\n")
    problems += client_problems(client)
    code = ExitCode.REGRESSED if problems else ExitCode.PASS
    word = "regressed" if problems else "pass"
    detail = (
        "; ".join(problems) or f"{args.records} records under {LIMIT_S:.0f} s and {LIMIT_BYTES / MIB:.0f} MiB"
    )
    review.say(f"verdict: {word} - {detail} (exit {int(code)})\n")
    return code


def bench_records(root: Path, size: int) -> Cost:
    """Compare ``size`` records of which one is worse, as ``python -m ci diff`` does."""
    write_large_checkout(root, size)
    command = ["-m", "ci", "diff", "--runs", str(root / "runs"), "--baselines", str(root / "baselines")]
    return measure(command, root / "output.txt")


def bench_junit(root: Path, size: int) -> Cost:
    """Read a report of ``size`` bytes of which the last test failed."""
    path = root / "junit.xml"
    write_large_junit(path, size)
    return measure(["-c", READ_JUNIT, str(path)], root / "output.txt")


@dataclass(frozen=True)
class ClientCost:
    """What the streaming client did to a stream."""

    sent_ms: float
    """Per step, as the server sent them."""
    measured_ms: float
    """Per step, as the client measured them."""
    late_us: float
    """From sending to the client's time stamp, the median chunk."""
    cpu_us: float
    """Processor time of the client per step, reading the events afterwards included."""

    @property
    def share(self) -> float:
        """What the client added to a step, as a fraction of it."""
        return self.measured_ms / self.sent_ms - 1

    @property
    def words(self) -> str:
        """For people."""
        return (
            f"sent every {self.sent_ms:.4f} ms, measured {self.measured_ms:.4f} ms ({self.share:+.3%}); "
            f"stamped {self.late_us:.0f} us after sending, {self.cpu_us:.0f} us of processor time per step"
        )


def bench_client(steps: int = STEPS, step_s: float = STEP_S) -> ClientCost:
    """Stream from a server that knows when it sent each step."""
    command = [sys.executable, "-m", "ci.proof.played_stream", str(steps), str(step_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None  # noqa: S101 - it is a pipe
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1/completions"
        begun = time.process_time()
        got = stream(url, {"prompt": "x", "max_tokens": steps})
        cpu = time.process_time() - begun
        sent: list[float] = json.loads(server.stdout.readline())
    late = sorted(came - went for came, went in zip(got.content_s, sent, strict=True))
    return ClientCost(
        sent_ms=(sent[-1] - sent[0]) * 1e3 / (steps - 1),
        measured_ms=got.decode_s * 1e3 / (steps - 1),
        late_us=late[steps // 2] * 1e6,
        cpu_us=cpu * 1e6 / steps,
    )


def client_problems(cost: ClientCost) -> list[str]:
    """Return what is wrong with the client: it changes what it measures."""
    if abs(cost.share) < CLIENT_SHARE:
        return []
    return [f"the client changes a step by {cost.share:+.2%}, the limit is {CLIENT_SHARE:.0%}"]


def record_problems(costs: dict[int, Cost]) -> list[str]:
    """Return what is wrong with the costs by size: verdict, time, memory, or its growth."""
    problems = [
        f"{size} records: exit code {cost.status}, not 1" for size, cost in costs.items() if cost.status != 1
    ]
    small, large = min(costs), max(costs)
    if costs[large].seconds > LIMIT_S:
        problems.append(f"{large} records took {costs[large].seconds:.1f} s, the limit is {LIMIT_S:.0f} s")
    if costs[large].peak_bytes > LIMIT_BYTES:
        problems.append(f"{large} records took {costs[large].peak_bytes / MIB:.0f} MiB")
    if large > small and costs[large].peak_bytes / costs[small].peak_bytes >= large / small:
        problems.append("memory grows as fast as the input")
    return problems


def junit_problems(cost: Cost) -> list[str]:
    """Return what is wrong with the cost of a large report."""
    problems = [] if cost.status == 1 else [f"JUnit: exit code {cost.status}, not 1"]
    if cost.peak_bytes > JUNIT_LIMIT_BYTES:
        problems.append(
            f"JUnit took {cost.peak_bytes / MIB:.0f} MiB, the limit is {JUNIT_LIMIT_BYTES / MIB:.0f} MiB"
        )
    return problems


def measure(arguments: list[str], output: Path) -> Cost:
    """Run this Python with ``arguments``; return wall time, peak memory and exit status of that process."""
    started = time.monotonic()
    with output.open("wb") as stream:
        actions = [(os.POSIX_SPAWN_DUP2, stream.fileno(), descriptor) for descriptor in (1, 2)]
        child = os.posix_spawn(sys.executable, [sys.executable, *arguments], os.environ, file_actions=actions)
        _, status, usage = os.wait4(child, 0)
    seconds = time.monotonic() - started
    # Linux counts in KiB.
    return Cost(seconds, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status))


def _show(cost: Cost) -> str:
    return f"{cost.seconds:6.1f} s, {cost.peak_bytes / MIB:6.0f} MiB, exit code {cost.status}"
