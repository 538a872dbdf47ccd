"""What ``diff``, ``accept`` and ``verdict`` share: reading the rules, the runs and the baselines."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ci.errors import GateError, UsageError
from ci.gate.compare import compare_suite
from ci.gate.plan import Plan, check_coverage, parse_plan
from ci.gate.policy import Policy, parse_policy
from ci.gate.rows import GateVerdict, SuiteVerdict
from ci.lanes.run import OUT_VARIABLE
from ci.report.console import DEFAULT_WIDTH, render_console
from ci.results.files import read_limited
from ci.results.folder import SuiteFiles, read_suite_files
from ci.results.jsonl import is_slug

MAX_TABLE_BYTES = 1 << 20
DEFAULT_LANE = "cpu"
FREEZE_FROM = 100_000
"""Planned metrics from which on the garbage collector's walks are felt."""
KEPT_ROWS = 20_000
"""Rows of one verdict that a report has at hand; no reader goes through more, and all are counted."""
ROOT = Path(__file__).resolve().parents[2]


class TextError(GateError):
    """A hand-written file that is not UTF-8."""


@dataclass(frozen=True)
class Rules:
    """Plan and policy of a baselines folder, checked against each other."""

    folder: Path
    plan: Plan
    policy: Policy
    notes: tuple[str, ...]

    def baseline_path(self, lane: str, suite: str) -> Path:
        """Return where the baseline of ``suite`` on ``lane`` is, or would be."""
        return self.folder / lane / f"{suite}.jsonl"


def out_folder(*names: str) -> Path:
    """Return a folder of what is made here: in ``$FORKPROOF_OUT``, by default in ``out/`` of the checkout."""
    return Path(os.environ.get(OUT_VARIABLE) or _shown(ROOT / "out")).joinpath(*names)


def default_runs() -> Path:
    """Return the folder of all runs."""
    return out_folder("runs")


def runs_folder(named: Path | None) -> Path:
    """Return the folder that an option names, else the default one, which may not be there yet.

    Raises:
        UsageError: the option names no folder, which would read as if nothing had run.
    """
    if named is not None and not named.is_dir():
        raise UsageError(f"--runs {named}: no such folder", remedy="leave it out, or name a folder of runs")
    return named or default_runs()


def default_baselines() -> Path:
    """Return the baselines folder of the checkout."""
    return _shown(ROOT / "baselines")


def _shown(path: Path) -> Path:
    """Return ``path`` as a person in the checkout would write it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def load_rules(baselines: Path) -> Rules:
    """Read ``plan.toml`` and ``policy.toml``.

    Raises:
        UsageError: there is no plan or no policy.
        PlanError, PolicyError, NoRuleError, TextError and the errors of `ci.results.files`.
    """
    for name in ("plan.toml", "policy.toml"):
        if not (baselines / name).exists():
            raise UsageError(
                f"{baselines / name}: no such file",
                remedy="restore it from git, or name the folder that holds it: --baselines DIR",
            )
    plan = parse_plan(_read_text(baselines / "plan.toml"), baselines / "plan.toml")
    policy = parse_policy(_read_text(baselines / "policy.toml"), baselines / "policy.toml")
    rules = Rules(baselines, plan, policy, check_coverage(plan, policy))
    if sum(map(len, plan.suites.values())) >= FREEZE_FROM:
        # They stay until the process ends: without this, every collection would walk through all of them.
        gc.freeze()
    return rules


def review_suite(
    rules: Rules, run_dir: Path, lane: str, suite: str, keep: int | None = KEPT_ROWS
) -> tuple[SuiteFiles, SuiteVerdict]:
    """Read one run folder with its baseline and compare them; ``keep`` as for `compare_suite`."""
    files = read_suite_files(run_dir, rules.baseline_path(lane, suite), lane, suite)
    return files, compare_suite(rules.plan, rules.policy, files, datetime.now(UTC), keep)


def chosen_lanes(rules: Rules, runs: Path, asked: list[str] | None) -> list[str]:
    """Return the lanes asked for, else those with a run folder, else the CPU lane.

    Raises:
        UsageError: a lane that is neither planned nor measured.
    """
    present = [name for name in subfolders(runs) if subfolders(runs / name)]
    for lane in asked or ():
        if lane not in rules.plan.lanes and lane not in present:
            known = ", ".join(sorted({*rules.plan.lanes, *present}))
            raise UsageError(f"lane {lane!r} is neither planned nor measured", remedy=f"one of: {known}")
    return list(dict.fromkeys(asked or present or [DEFAULT_LANE]))


def suites_of(rules: Rules, runs: Path, lane: str) -> list[str]:
    """Return every suite that is planned, measured or accepted on ``lane``."""
    folder = rules.folder / lane
    accepted = (
        sorted(path.stem for path in folder.glob("*.jsonl") if is_slug(path.stem)) if folder.is_dir() else []
    )
    accepted = [name for name in accepted if name != "aa"]  # A/A sessions, which belong to no single suite
    return list(dict.fromkeys([*rules.plan.suites_on(lane), *subfolders(runs / lane), *accepted]))


def subfolders(folder: Path) -> list[str]:
    """Return the names of plain subfolders that can be a lane or suite, sorted."""
    if not folder.is_dir():
        return []
    return sorted(
        one.name for one in folder.iterdir() if one.is_dir() and not one.is_symlink() and is_slug(one.name)
    )


def show(verdict: GateVerdict) -> None:
    """Print the console report, in colour only where a person reads it."""
    terminal = sys.stdout.isatty()
    color = terminal and not os.environ.get("NO_COLOR")
    width = os.get_terminal_size(sys.stdout.fileno()).columns if terminal else DEFAULT_WIDTH
    say(render_console(verdict, width=max(width, 80), color=color))


def say(text: str) -> None:
    """Print ``text`` whole, whatever characters the terminal can show."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), end="", flush=True)


def _read_text(path: Path) -> str:
    try:
        return read_limited(path, MAX_TABLE_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise TextError(f"{path}: not UTF-8 at byte {error.start}", remedy=f"save {path} as UTF-8") from error
