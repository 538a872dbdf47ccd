"""``python -m ci run``: run suites against an arm and judge what came out."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ci.commands import review
from ci.commands.stack import ConsoleProgress
from ci.commands.verdict import conclude_all
from ci.errors import ExitCode, UsageError
from ci.gate.plan import Plan
from ci.lanes.conditions import CPU_LANE, detect_lane
from ci.lanes.run import SuiteJob, check_environment, check_suite, default_workers, run_suite
from ci.results.field_verdicts import field_lines
from ci.results.files import write_atomic
from ci.results.jsonl import is_slug, read_results
from ci.results.recorder import RECORDS_FILE
from ci.results.records import Subject
from ci.stack.arms import Arm, find_arms_up_to
from ci.stack.installed import ROOT_VARIABLE, installed_arm
from ci.stack.manifest import ArmManifest
from ci.stack.record import Flavour
from ci.stack.series import SERIES_VARIABLE

FLAVOUR_VARIABLE = "FORKPROOF_FLAVOUR"
"""How much of the wheel arms have on this machine, whatever its lane: a bundle brings one flavour along."""
EXPORT_VARIABLE = "ORACLE_OUT"
"""Where the oracle's results also go, as the field's own verdict file."""

EPILOG = """\
examples:
  python -m ci run property                     against the whole series
  python -m ci run property pool -n 4           two suites, four workers each
  python -m ci run property --arm mq3d          against the first patch only: goes red
  python -m ci run property --mutate seq-rows   an option of the suite's own; what stands
  python -m ci run property -- -k grid -x       after -- goes to pytest as it is
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "run",
        help="run suites against an arm and judge what came out",
        description="Run suites against an arm; every suite gets its verdict against the baseline.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suites", nargs="+", metavar="SUITE", help="suites: folders of tests/")
    add_options(parser)
    parser.set_defaults(func=run, takes_rest=True)


def add_options(parser: argparse.ArgumentParser, lane: str | None = None, *, takes_arm: bool = True) -> None:
    """Add the options of every command that runs suites.

    Args:
        parser: of the command.
        lane: the one it takes without being asked.
        takes_arm: False for a command that refuses an arm, and says so.
    """
    words = "the arm to run against (default: the whole series)"
    parser.add_argument("--arm", help=words if takes_arm else argparse.SUPPRESS)
    usual = lane or "this machine's, or cpu for a suite planned only there"
    parser.add_argument("--lane", default=lane, help=f"the lane (default: {usual})")
    parser.add_argument("-n", "--workers", type=int, metavar="N", help="pytest workers (default: by lane)")
    parser.add_argument(
        "--series", type=Path, metavar="DIR", help="a series other than patches/ (or FORKPROOF_SERIES)"
    )
    parser.add_argument(
        "--flavour",
        type=Flavour,
        choices=list(Flavour),
        metavar="{lean,full}",
        help="how much of the wheel the arm has (default: lean on cpu, full elsewhere)",
    )
    parser.add_argument(
        "--flag",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set an environment variable for the suite; it is recorded as part of the subject",
    )


def run(args: argparse.Namespace) -> ExitCode:
    """Run each suite, then judge each; a red suite does not keep the others from running."""
    plan = review.load_rules(review.default_baselines()).plan
    suites = choose_lanes(args.suites, args.lane, plan)
    target = export_target(suites)
    run_suites(args, suites, installed_subject(args))
    if target is not None:
        export_verdicts(target, dict(suites)["oracle"])
    return conclude_all([run_folder(suite, lane) for suite, lane in suites])


def installed_subject(args: argparse.Namespace) -> Arm | None:
    """The tree that ``VLLM_ROOT`` names, if it is to be judged instead of an arm.

    Raises:
        UsageError: an arm or a series is named as well: a variable must not decide between them.
    """
    installed = installed_arm()
    if installed is None:
        return None
    named = [f"--arm {args.arm}"] * bool(args.arm) + [f"--series {args.series}"] * bool(args.series)
    named += [SERIES_VARIABLE] * bool(os.environ.get(SERIES_VARIABLE))
    if named:
        raise UsageError(
            f"{ROOT_VARIABLE} and {named[0]} both say what to judge",
            remedy=f"unset {ROOT_VARIABLE}, or leave it out",
        )
    print(
        f"note: {ROOT_VARIABLE} is set: {installed.root} is judged instead of an arm of the series",
        flush=True,
    )
    return installed


def choose_lanes(suites: Sequence[str], asked: str | None, plan: Plan) -> list[tuple[str, str]]:
    """The lane of each suite, once per suite: the one asked for, else the best that this machine can do.

    A suite that is planned for the machine's GPU runs there; one that is planned
    only for the CPU runs there on every machine.

    Raises:
        UsageError: the lane asked for cannot be a lane's name, or has a GPU, and this machine shows none.
    """
    if asked is not None and not is_slug(asked):
        raise UsageError(f"--lane {asked!r}: a lane is named with a-z, 0-9, '.', '_' and '-'")
    if asked is not None:
        require_machine(asked)
    machine = asked or detect_lane()
    chosen = []
    for suite in dict.fromkeys(suites):
        cpu_only = plan.metrics(CPU_LANE, suite) and not plan.metrics(machine, suite)
        lane = CPU_LANE if cpu_only and asked is None else machine
        planned = [one for one in plan.lanes if plan.metrics(one, suite)]
        if lane == CPU_LANE and planned and CPU_LANE not in planned:
            raise UsageError(
                f"{suite} is not planned on {CPU_LANE}, and this machine shows no other lane",
                remedy=f"run it on one of: {', '.join(planned)}; nox -s doctor says what this machine lacks",
            )
        chosen.append((suite, lane))
    return chosen


def require_machine(lane: str) -> None:
    """Raise UsageError if a lane has a GPU and this machine shows none: that is no regression."""
    if lane != CPU_LANE and detect_lane() == CPU_LANE:
        raise UsageError(
            f"--lane {lane}: this machine shows no GPU, so nothing that it measures is of that lane",
            remedy=f"nox -s doctor -- --lane {lane}; elsewhere: nox -s dispatch -- --lane {lane}",
        )


def run_suites(
    args: argparse.Namespace, suites: Sequence[tuple[str, str]], installed: Arm | None = None
) -> None:
    """Run suites, each on its lane, one after the other; nothing is judged yet, and none stops the next.

    Args:
        args: the command line.
        suites: suites and their lanes.
        installed: a tree to judge instead of an arm of the series.
    """
    for suite, _ in suites:
        check_suite(suite)
    flags = parse_flags(args.flag)
    check_environment()
    flavours = {args.flavour or flavour_on(lane) for _, lane in suites}
    arms = {} if installed else find_arms(args.arm, args.series, flavours)
    for suite, lane in suites:
        *earlier, arm = [installed] if installed else arms[args.flavour or flavour_on(lane)]
        job = job_for(suite, lane, arm, earlier, flags, args.workers, args.rest)
        print(f"== {suite} on {lane}, arm {arm.name} ({arm.manifest.series_hash[:12]})", flush=True)
        status = run_suite(job)
        if status not in (0, 1):
            print(
                f"== {suite}: pytest ended with status {status}; see {job.run_dir / 'console.log'}",
                flush=True,
            )


def export_target(suites: Sequence[tuple[str, str]]) -> Path | None:
    """Where ``ORACLE_OUT`` wants the oracle's rows; what an earlier run left there is removed.

    Raises:
        UsageError: the file could not be written after the run, which would be late to say.
    """
    named = os.environ.get(EXPORT_VARIABLE)
    if not named or "oracle" not in {suite for suite, _ in suites}:
        return None
    target = Path(named).absolute()
    try:
        target.unlink(missing_ok=True)
        write_atomic(target, b"")
        target.unlink()
    except OSError as error:
        raise UsageError(
            f"{EXPORT_VARIABLE}={named}: {error.strerror}",
            remedy="name a file in a folder that can be written",
        ) from error
    return target


def export_verdicts(target: Path, lane: str) -> None:
    """Write the oracle's rows in the field's own form; ok is what the gate found nothing against."""
    run_dir = run_folder("oracle", lane)
    if not (run_dir / RECORDS_FILE).is_file():
        return
    results = read_results(run_dir / RECORDS_FILE)
    rules = review.load_rules(review.default_baselines())
    _, verdict = review.review_suite(rules, run_dir, lane, "oracle", keep=None)
    good = {row.case for row in verdict.rows if row.verdict.exit_code is ExitCode.PASS}
    bad = {row.case for row in verdict.rows if row.verdict.exit_code is not ExitCode.PASS}
    write_atomic(target, field_lines(results.head, results.records, good - bad))
    print(f"oracle: rows in the field's form written to {target}", flush=True)


def find_arms(name: str | None, series: Path | None, flavours: set[Flavour]) -> dict[Flavour, list[Arm]]:
    """The arm, or the whole series, last, and those with fewer patches, in each flavour that is needed."""
    with ConsoleProgress(Console(stderr=True)) as progress:
        return {
            flavour: find_arms_up_to(name, series, flavour=flavour, progress=progress) for flavour in flavours
        }


def arms_by_name(name: str | None, series: Path | None, lane: str, flavour: Flavour | None) -> dict[str, Arm]:
    """The arms of `find_arms` by their names, in one flavour: the lane's, unless another is given."""
    chosen = flavour or flavour_on(lane)
    return {arm.name: arm for arm in find_arms(name, series, {chosen})[chosen]}


def flavour_on(lane: str) -> Flavour:
    """How much of the wheel a lane needs: its Python files, or all of it where kernels are compiled.

    Raises:
        UsageError: FORKPROOF_FLAVOUR, which decides where it is set, names none.
    """
    named = os.environ.get(FLAVOUR_VARIABLE)
    if not named:
        return Flavour.LEAN if lane == CPU_LANE else Flavour.FULL
    try:
        return Flavour(named)
    except ValueError:
        words = " or ".join(flavour.value for flavour in Flavour)
        raise UsageError(f"{FLAVOUR_VARIABLE}={named} is no flavour", remedy=f"{words}") from None


def job_for(
    suite: str,
    lane: str,
    arm: Arm,
    earlier: Sequence[Arm],
    flags: dict[str, str],
    workers: int | None,
    rest: Sequence[str],
) -> SuiteJob:
    """The job of one suite against a built arm, with the arms before it at hand."""
    return SuiteJob(
        suite=suite,
        lane=lane,
        run_dir=run_folder(suite, lane).resolve(),
        arm_root=arm.root,
        arm_roots={one.name: one.root for one in (*earlier, arm)},
        subject=Subject(arm.name, arm.manifest.series_hash, flags),
        vllm=arm.manifest.vllm,
        provenance=provenance(arm.manifest),
        workers=default_workers(lane) if workers is None else workers,
        pytest_args=tuple(rest),
    )


def run_folder(suite: str, lane: str) -> Path:
    """Where the last run of a suite on a lane is."""
    return review.default_runs() / lane / suite


def provenance(manifest: ArmManifest) -> dict[str, str]:
    """What the results were measured on: hashes of the wheel, the patches and every file that differs."""
    named = {"wheel": manifest.wheel_sha256, "flavour": manifest.flavour}
    named |= {f"patch:{patch.name}": patch.hunk_hash for patch in manifest.patches}
    return named | {f"file:{path}": pair.patched or "removed" for path, pair in manifest.files.items()}


def parse_flags(given: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` options as a mapping.

    Raises:
        UsageError: an option without a name or ``=``, or two for one name.
    """
    flags: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--flag {text!r} is not NAME=VALUE", remedy="--flag VLLM_INT4_MQ_3D=1")
        if name in flags:
            raise UsageError(f"--flag {name} is given twice")
        flags[name] = value
    return flags
