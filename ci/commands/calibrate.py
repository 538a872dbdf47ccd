"""``python -m ci calibrate``: how often the A/B comparison is right, by simulation."""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

from ci.commands import review
from ci.errors import ExitCode, UsageError
from ci.gate.calibration import (
    EFFECTS,
    NOISES,
    USUAL_BOOTS,
    Scenario,
    scenarios,
    simulate,
    simulate_usual,
)
from ci.gate.calibration_prompts import fewer, prompt_scenarios, simulate_prompts
from ci.gate.usual import UsualRule
from ci.report.calibration import Calibration, goals, render_calibration
from ci.results.files import write_report

REPEATS = 2000
SEED = 20260901
EXAMPLES = """\
examples:
  python -m ci calibrate                                 the goals, in about five minutes of one core
  python -m ci calibrate --write docs/calibration.md     also the page
  python -m ci calibrate --repeats 200                   a first look
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "calibrate",
        help="simulate how often the A/B comparison is right",
        description="Judge simulated boots with the functions that judge real ones. "
        "Exit code 1 if a goal is missed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, help="comparisons per row (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="default: %(default)s")
    parser.add_argument("--processes", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--write", type=Path, help="write the page with all tables to this file")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Simulate every row, print the goals, and return whether all are met."""
    if args.repeats < 1 or args.processes < 1:
        raise UsageError("--repeats and --processes are numbers from 1", remedy="--repeats 200")
    calibration = calibrate(args.repeats, args.seed, args.processes)
    if args.write is not None:
        write_report(args.write, render_calibration(calibration).encode())
    found = goals(calibration.shares)
    for goal in found:
        review.say(f"{'met' if goal.met else 'MISSED':6}  {goal.text}: {goal.got} (wanted: {goal.wanted})\n")
    missed = sum(not goal.met for goal in found)
    code = ExitCode.REGRESSED if missed else ExitCode.PASS
    word = "regressed" if missed else "pass"
    review.say(f"verdict: {word} - {len(found) - missed} of {len(found)} goals met (exit {int(code)})\n")
    return code


def calibrate(repeats: int, seed: int, processes: int = 1) -> Calibration:
    """Simulate all rows, each from a seed of its own, so that the order and the processes do not matter."""
    rows = list(scenarios())
    several = list(prompt_scenarios())
    usual = [
        (rule, Scenario(effect, noise, boots))
        for rule, boots, noise, effect in product(UsualRule, USUAL_BOOTS, NOISES, EFFECTS)
    ]
    with ProcessPoolExecutor(min(processes, os.cpu_count() or 1)) as pool:
        shares = pool.map(simulate, rows, [repeats] * len(rows), [seed] * len(rows))
        together = pool.map(simulate_prompts, several, [fewer(repeats)] * len(several), [seed] * len(several))
        accused = pool.map(
            simulate_usual,
            [rule for rule, _ in usual],
            [row for _, row in usual],
            [repeats] * len(usual),
            [seed] * len(usual),
        )
        return Calibration(
            dict(zip(rows, shares, strict=True)),
            dict(zip(several, together, strict=True)),
            dict(zip(usual, accused, strict=True)),
            repeats,
            seed,
        )
