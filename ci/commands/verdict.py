"""The verdict of one run folder, and ``python -m ci verdict`` to read it again."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from ci.commands import review
from ci.errors import ExitCode, UsageError
from ci.gate.rows import GateVerdict, SuiteVerdict
from ci.gate.verdict import verdict_word
from ci.results.files import write_atomic
from ci.results.folder import RUN_FILE
from ci.results.jsonl import is_slug

VERDICT_FILE = "verdict.json"
EXAMPLES = """\
examples:
  python -m ci verdict out/runs/cpu/property     judge that run again
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "verdict",
        help="judge one run folder again",
        description="Compare the results of run folders with their baselines; write verdict.json into each.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_dir", type=Path, nargs="+", help="a folder .../LANE/SUITE")
    parser.add_argument("--baselines", type=Path, help="default: baselines")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Judge the folders and return the joined exit code."""
    return conclude_all(args.run_dir, args.baselines)


def conclude(run_dir: Path, baselines_dir: Path | None = None) -> ExitCode:
    """Judge one run folder: print its table, write ``verdict.json``, return the exit code.

    The folder's path ends in lane and suite; its files must agree with that.

    Raises:
        GateError: plan or policy cannot be used. Whatever is wrong with the run is a verdict instead.
    """
    return conclude_all([run_dir], baselines_dir)


def conclude_all(run_dirs: Sequence[Path], baselines_dir: Path | None = None) -> ExitCode:
    """Judge several run folders in one table, as `conclude` does."""
    rules = review.load_rules(baselines_dir or review.default_baselines())
    suites = []
    for run_dir in _once(run_dirs):
        lane, suite = _names(run_dir)
        verdict = review.review_suite(rules, run_dir, lane, suite)[1]
        if _is_run_folder(run_dir):
            write_atomic(run_dir / VERDICT_FILE, _verdict_json(verdict))
        suites.append(verdict)
    joined = GateVerdict(tuple(suites), rules.notes)
    review.show(joined)
    return joined.outcome[1]


def _once(run_dirs: Sequence[Path]) -> list[Path]:
    """Return each folder once, by its first spelling."""
    first: dict[Path, Path] = {}
    for run_dir in run_dirs:
        first.setdefault(run_dir.resolve(), run_dir)
    return list(first.values())


def _is_run_folder(run_dir: Path) -> bool:
    """Tell whether a verdict belongs there; an older one must not outlive the start file."""
    return any((run_dir / name).is_file() for name in (RUN_FILE, VERDICT_FILE))


def _names(run_dir: Path) -> tuple[str, str]:
    # Padded, because the root folder has one part only.
    lane, suite = ("", *run_dir.absolute().parts)[-2:]
    if not is_slug(lane) or not is_slug(suite):
        raise UsageError(
            f"{run_dir}: not a run folder", remedy="its path ends in LANE/SUITE: out/runs/cpu/property"
        )
    return lane, suite


def _verdict_json(suite: SuiteVerdict) -> bytes:
    content = {
        "verdict": verdict_word(suite.verdict, suite.exit_code),
        "exit_code": int(suite.exit_code),
        "lane": suite.lane,
        "suite": suite.suite,
        "detail": GateVerdict((suite,)).detail,
    }
    return (json.dumps(content, indent=2) + "\n").encode()
