"""``python -m ci boots``: boot a profile with and without the patch, and judge the memory budget."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from ci.commands import review
from ci.commands.run import arms_by_name
from ci.engine.boot import BootRun, missing_lines, run_boot, serve_launch
from ci.engine.bootlog import read_boot_log
from ci.engine.breaks import BREAKS
from ci.engine.dummy import write_dummy
from ci.engine.facts import BootContext, facts_of
from ci.engine.orphans import abandoned, end_marked
from ci.engine.profile import Profile, asks_ubatching, load_profile
from ci.engine.server import Server
from ci.engine.session import Boot, kept_file, memory_boots, run_session, session_key
from ci.errors import ExitCode, UsageError
from ci.gate.attempts import FAILED, Attempt, Expected, judge_attempts
from ci.gate.bands import parse_bands
from ci.gate.membudget import Band, judge_row
from ci.gate.verdict import last_line, overall
from ci.lanes.conditions import detect_lane, read_conditions
from ci.lanes.gpu import GpuUnfitError, Need, lease, load_average, read_state, require_fit
from ci.report.boots import RowBoots, render_attempts, render_rows
from ci.results.boot import BootFacts
from ci.results.files import write_atomic
from ci.stack.arms import Arm
from ci.stack.cache import cache_root
from ci.stack.record import Flavour

EPILOG = """\
examples:
  python -m ci boots any-gpu-dummy7 --seqs 32 --seqs 16     two rows, three boots each
  python -m ci boots any-gpu-dummy7 --in-process            exact bytes, where there is no server
  python -m ci boots any-gpu-dummy8 --break declared-8      a deliberate break, which must be seen
  python -m ci boots rtx3090-depth11-262144 --attempts 2    a profile that expects its boots to fail
"""
KEY_LENGTH = 12
DUMMY_VARIABLE = "FORKPROOF_DUMMY"
DEFAULT_SHARE = 0.92
"""What the pinned vLLM takes of a GPU unless it is told otherwise."""
BREAK_REQUESTS = 2
LONG_PROMPT = "The first flights of the program carried no crew. " * 20


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "boots",
        help="boot a profile on this GPU and judge the memory budget",
        description="For each number of sequences boot reference arm, subject and reference again, "
        "and judge the difference. Finished boots are kept: run it again to go on where it stopped.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("profile", help="a launch profile: ci/engine/profiles/NAME.toml")
    parser.add_argument(
        "--seqs", type=int, action="append", help="max_num_seqs of a row (default: the profile's)"
    )
    parser.add_argument(
        "--reference", default="token-units", help="the arm without the pool (default: %(default)s)"
    )
    parser.add_argument(
        "--break", dest="broken", choices=sorted(BREAKS), help="boot the subject with a break in it"
    )
    parser.add_argument(
        "--attempts",
        type=int,
        metavar="N",
        help="boots of a profile that expects a failure (default: as many as were published)",
    )
    add_machine_options(parser)
    parser.set_defaults(func=run)


def add_machine_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that boots: which arm, and how."""
    parser.add_argument("--subject", help="the arm with the patch (default: the whole series)")
    parser.add_argument("--series", type=Path, metavar="DIR", help="a series other than patches/")
    parser.add_argument("--flavour", type=Flavour, choices=list(Flavour), help=argparse.SUPPRESS)
    parser.add_argument(
        "--session", type=Path, help="folder of the boots (default: out/boots/LANE/PROFILE/KEY)"
    )
    parser.add_argument("--in-process", action="store_true", help="without vLLM's server, with exact numbers")


def run(args: argparse.Namespace) -> ExitCode:
    """Hold the GPU, boot what is not on disk yet, judge every row."""
    profile = load_profile(args.profile)
    require_positive("--seqs", *(args.seqs or ()))
    require_positive("--attempts", args.attempts)
    if args.attempts and profile.expect.outcome != "failed":
        raise UsageError(
            f"{profile.name} expects its boots to succeed", remedy="--attempts is for the depth11 profiles"
        )
    session, _ = open_session(args, profile)
    with lease(read_state().uuid or "unnamed", cache_root() / "leases", f"boots {profile.name}"):
        if args.broken:
            return session.broken(args.broken)
        if profile.expect.outcome == "failed":
            return session.attempts(args.attempts or profile.expect.attempts)
        return session.judge(args.seqs or profile.serve.max_num_seqs, args.reference)


def require_positive(option: str, *given: int | None) -> None:
    """Raise UsageError if a number that was given is under one."""
    low = [number for number in given if number is not None and number < 1]
    if low:
        raise UsageError(f"{option} {low[0]}: at least 1")


def open_session(args: argparse.Namespace, profile: Profile) -> tuple[Session, Path]:
    """The session of a profile on this machine, and its folder; what killed runs left behind is ended.

    Raises:
        GpuUnfitError: this machine has no GPU.
        UsageError: the profile is for another lane.
    """
    lane = detect_lane()
    if lane == "cpu":
        raise GpuUnfitError("there is no GPU to boot on", remedy="run it where nvidia-smi shows one")
    if profile.lane not in ("any-gpu", lane):
        raise UsageError(
            f"{profile.name} is for {profile.lane}, this machine is {lane}", remedy="choose a profile"
        )
    if profile.needs:
        review.say(f"note: {profile.name} needs {profile.needs}\n")
    for pid, mark in abandoned():
        review.say(f"ending process {pid}, left behind by a killed run\n")
        end_marked(mark)
    folder = args.session or review.out_folder("boots", lane, profile.name)
    arms = arms_by_name(args.subject, args.series, lane, args.flavour)
    in_process = args.in_process or bool(getattr(args, "broken", None))
    session = Session(profile, lane, folder.absolute(), arms, in_process, apart=args.session is None)
    return session, session.folder


class Session:
    """The boots of one profile on this machine."""

    def __init__(
        self,
        profile: Profile,
        lane: str,
        folder: Path,
        arms: dict[str, Arm],
        in_process: bool,
        *,
        apart: bool = True,
    ) -> None:
        """A session; `apart` gives those of other arms, settings and machines folders of their own in it."""
        self.profile, self.lane, self.arms = profile, lane, arms
        self.in_process = in_process
        self.conditions = read_conditions(lane)
        self.before: dict[str, object] = {}
        here = self.conditions["environment"]
        if profile.environment not in ("any", here):
            raise UsageError(
                f"{profile.name} is for {profile.environment}, this machine is {here}",
                cause="a container image profiles another budget than the same machine without it",
                remedy="choose a profile of this environment, or write one: docs/membudget.md",
            )
        self.folder = folder = folder / self.key[:KEY_LENGTH] if apart else folder
        self.variables = dict(os.environ)
        if profile.model.path.startswith("${" + DUMMY_VARIABLE) and DUMMY_VARIABLE not in os.environ:
            write_dummy(folder / "model")
            self.variables[DUMMY_VARIABLE] = str(folder / "model")

    @property
    def subject(self) -> str:
        """The arm that the session is about: the last."""
        return list(self.arms)[-1]

    @property
    def key(self) -> str:
        """Everything that two boots of this session have in common."""
        hashes = [f"{name}:{arm.manifest.series_hash}" for name, arm in sorted(self.arms.items())]
        conditions = json.dumps(self.conditions, sort_keys=True)
        return session_key(repr(self.profile), conditions, str(self.in_process), *hashes)

    def judge(self, seqs: Sequence[int], reference: str) -> ExitCode:
        """Boot and judge; one row after the other, each shown as soon as it is whole."""
        band = bands().get(self.lane)
        rows = [self.row(number, reference, band) for number in seqs]
        review.say("\n" + render_rows(rows))
        verdict, code = overall((one.row.verdict for one in rows), control_failed=False)
        review.say(last_line(verdict, f"{len(rows)} rows of {self.profile.name} on {self.lane}", code) + "\n")
        return code

    def row(self, seqs: int, reference: str, band: Band | None) -> RowBoots:
        """The three boots of one row."""
        wanted = memory_boots([seqs], reference, self.subject)
        found = run_session(self.folder, wanted, self.key, self.boot_for_facts)
        for boot, facts in zip(wanted, found, strict=True):
            if facts.problem:
                path = kept_file(self.folder, boot)
                review.say(f"note: {boot.name}: {facts.problem}; delete {path} to boot it again\n")
        first, patched, again = found
        one = RowBoots(judge_row([first, again], patched, band), [first, again], patched)
        review.say(render_rows([one]))
        return one

    def boot_for_facts(self, boot: Boot, folder: Path) -> BootFacts:
        """One boot, with everything that it said kept beside its log."""
        review.say(f"booting {boot.name}\n")
        exact: dict[str, object] = {}
        run = self.boot(boot, folder, lambda server: exact.update(json.loads(server.get("/exact") or "{}")))
        write_atomic(folder / "exact.json", json.dumps(exact, indent=1).encode() + b"\n")
        write_atomic(folder / "machine.json", json.dumps(self.machine(run), indent=1).encode() + b"\n")
        facts = facts_of(run.report, self.context(boot, run, exact), run.cache[0] if run.cache else None)
        log = (folder / "boot.log").read_text(encoding="utf-8", errors="replace")
        missing = missing_lines(self.profile, log)
        if missing and facts.problem is None:
            facts = msgspec.structs.replace(facts, problem=f"its log lacks {', '.join(map(repr, missing))}")
        review.say(
            f"  {run.report.outcome.value} after {run.seconds:.0f} s, {run.report.cause or 'no failure'}\n"
        )
        return facts

    def boot(
        self, boot: Boot, folder: Path, while_up: Callable[[Server], None], broken: str | None = None
    ) -> BootRun:
        """One boot on a GPU that is fit for it."""
        limits, state, load = self.profile.limits, read_state(), load_average()
        need = Need(
            free_bytes=wanted_bytes(self.profile, state.total_bytes),
            load_average=limits.load_average,
            power_limit_w=limits.power_limit_w,
            must_read=tuple(limits.must_read),
        )
        require_fit(state, need, load)
        self.before = {**state.recorded(), "load_average": load}
        if boot.arm not in self.arms:
            raise UsageError(f"the series has no arm {boot.arm!r}", remedy=f"one of: {', '.join(self.arms)}")
        root = self.arms[boot.arm].root
        launch = serve_launch(
            self.profile,
            boot.max_num_seqs,
            root,
            folder,
            self.variables,
            caches=self.shared_caches(),
            in_process=self.in_process,
            broken=broken,
            descriptions=cache_root() / "modelinfos" / root.parent.name / root.name,
        )
        run = run_boot(launch, read_state, while_up)
        if run.left:
            raise GpuUnfitError(f"{boot.name} left {run.left} on the GPU", remedy="look at nvidia-smi")
        return run

    def machine(self, run: BootRun) -> dict[str, object]:
        """The state of the GPU before a boot and while it was up; None for what the driver does not say."""
        return {"before": self.before, "up": run.up.recorded() if run.up else None, "left": run.left}

    def shared_caches(self) -> Path | None:
        """The folder of a shared lineage; None where every boot has empty caches."""
        kind, _, name = self.profile.lineage.partition(":")
        return self.folder / "lineage" / name if kind == "shared" else None

    def context(self, boot: Boot, run: BootRun, exact: dict[str, object]) -> BootContext:
        """What is known of a boot beside its log."""
        up = run.up
        known = up is not None and up.total_bytes is not None and up.used_bytes is not None
        return BootContext(
            arm=boot.arm,
            lane=self.lane,
            environment=str(self.conditions["environment"]),
            session=self.key[:KEY_LENGTH],
            max_num_seqs=boot.max_num_seqs,
            expected_adoptions=0,
            ubatching=bool(exact.get("ubatching")) or asks_ubatching(self.profile),
            exact_kv_bytes=whole(exact.get("available_kv_bytes")),
            exact_load_bytes=whole(exact.get("model_load_bytes")),
            free_after_boot=up.total_bytes - up.used_bytes if known and up else None,  # type: ignore[operator]
            resident=up.used_bytes if up else None,
        )

    def attempts(self, number: int) -> ExitCode:
        """Boot so often, every boot in a folder of its own, and judge how they ended."""
        expect, seqs = self.profile.expect, min(self.profile.serve.max_num_seqs)
        boots = [Boot(self.subject, seqs, ordinal) for ordinal in range(1, number + 1)]
        run_session(self.folder, boots, self.key, self.boot_for_facts)
        ended = [self.attempt(boot) for boot in boots]
        verdict, found = judge_attempts(ended, Expected(tuple(expect.causes), expect.stage))
        review.say(render_attempts(ended, found))
        failed = sum(one.outcome == FAILED for one in ended)
        detail = f"{failed} of {len(ended)} boots of {self.profile.name} failed, {expect.attempts} published"
        review.say(last_line(verdict, detail, verdict.exit_code) + "\n")
        return verdict.exit_code

    def attempt(self, boot: Boot) -> Attempt:
        """How a boot ended, from its log."""
        path = self.folder / boot.name / "boot.log"
        if not path.exists():
            return Attempt(boot.name, "unfinished", f"{path} is gone", None)
        log = path.read_bytes()
        report = read_boot_log(log, boot.name)
        missing = missing_lines(self.profile, log.decode(errors="replace"))
        return Attempt(boot.name, report.outcome.value, report.cause, report.stage, tuple(missing))

    def broken(self, name: str) -> ExitCode:
        """Boot the subject with a break; what it should lead to must be seen."""
        states: list[dict[str, object] | None] = []

        def ask(server: Server) -> None:
            for _ in range(BREAK_REQUESTS):
                server.complete(LONG_PROMPT, max_tokens=32)
                states.append(json.loads(server.get("/exact") or "{}").get("breach"))

        boot = Boot(self.subject, min(self.profile.serve.max_num_seqs), 1)
        run = self.boot(boot, self.folder / f"break-{name}", ask, broken=name)
        review.say(f"outcome {run.report.outcome.value}, cause {run.report.cause}, breaches {states}\n")
        log = (self.folder / f"break-{name}" / "server.log").read_text(encoding="utf-8", errors="replace")
        seen = refused(run) if name == "sequence-units" else breached(states, log.count("int4 mq3d DEGRADED"))
        code = ExitCode.PASS if seen else ExitCode.CONTROL_FAILED
        word = "pass" if seen else "control failed"
        review.say(f"verdict: {word} - break {name} was {'' if seen else 'not '}seen (exit {int(code)})\n")
        return code


def refused(run: BootRun) -> bool:
    """Whether the engine refused to boot because its scratch does not carry what it declares."""
    return run.report.cause == "scratch assert"


def breached(states: Sequence[dict[str, object] | None], lines: int) -> bool:
    """Whether breaches were counted on, described once, and the first specimen kept."""
    if len(states) != BREAK_REQUESTS or not all(states):
        return False
    first, last = states[0] or {}, states[-1] or {}
    counts = whole(first.get("count")), whole(last.get("count"))
    grew = counts[0] is not None and counts[1] is not None and 0 < counts[0] < counts[1]
    return grew and bool(last.get("degraded")) and first.get("first") == last.get("first") and lines == 1


def wanted_bytes(profile: Profile, total: int | None) -> int | None:
    """Memory that has to be free before a boot: what the engine will ask for; None if it cannot be known."""
    share = profile.serve.gpu_memory_utilization or DEFAULT_SHARE
    return None if total is None else int(total * share)


def bands() -> dict[str, Band]:
    """The accepted bands; none where there is no file."""
    path = review.default_baselines() / "bands.toml"
    return parse_bands(path.read_text(encoding="utf-8"), path) if path.exists() else {}


def whole(value: object) -> int | None:
    """A whole number that was read; None for anything else."""
    return value if type(value) is int else None
