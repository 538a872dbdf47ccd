"""The throughput sessions of a profile on this machine: opened, run, gone on with, confirmed, judged."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from ci.commands import boots as boots_command
from ci.commands import review
from ci.commands.throughput_rules import SUITE, Judging
from ci.engine.abba import SessionError, begin, finished_boots, put_aside, read_head, resumed, run_blocks
from ci.engine.dummy import write_dummy
from ci.engine.identity import resolve_arm
from ci.engine.orphans import abandoned, end_marked
from ci.engine.profile import Measure, Profile
from ci.engine.session import session_key
from ci.engine.timed_boot import Machine, Setup, census_boot, soak_boot, timed_boot, with_equal_pools
from ci.errors import ExitCode, GateError, UsageError
from ci.gate.ab import AbResult, Design, decide
from ci.gate.policy import MAX_PAIRS, MIN_PAIRS
from ci.gate.throughput import (
    HIGHER_IS_BETTER,
    enough,
    judge_points,
    records_of,
    session_problems,
)
from ci.gate.verdict import Verdict, last_line, overall
from ci.lanes.conditions import read_conditions, read_gpus
from ci.lanes.gpu import GpuState, load_average, read_state
from ci.report.throughput import render_announcement, render_boots, render_judged
from ci.results.files import read_limited, write_atomic
from ci.results.records import Record
from ci.results.throughput import SCHEMA_VERSION, BootMeasure, SessionHead
from ci.stack.arms import Arm
from ci.stack.manifest import read_manifest

CENSUS_FILE = "census.json"


def checked_pairs(pairs: int) -> int:
    """A number of pairs that makes whole blocks.

    Raises:
        UsageError: it does not, or they are too few for a verdict.
    """
    if pairs % 2 or not MIN_PAIRS <= pairs <= MAX_PAIRS:
        raise UsageError(f"--pairs {pairs}: an even number from {MIN_PAIRS} to {MAX_PAIRS}")
    return pairs


class SessionOpenError(GateError):
    """A session is there that has not ended, and nobody said what to do with it."""


def measure_of(profile: Profile) -> Measure:
    """What a profile times.

    Raises:
        UsageError: nothing.
    """
    if profile.measure is None:
        raise UsageError(
            f"{profile.name} times nothing",
            remedy="choose a profile with a [measure] table: docs/throughput.md",
        )
    return profile.measure


@dataclass(frozen=True)
class Outcome:
    """A session as far as it has come."""

    head: SessionHead
    boots: tuple[BootMeasure, ...]
    stopped: str | None
    """None if boots are left to run."""
    earlier: tuple[SessionHead, Sequence[BootMeasure]] | None
    """The session that this one confirms or not."""
    refused: tuple[str, ...] = ()
    """What a census boot found wrong."""


class Throughput:
    """The sessions of one profile and two arms on this machine.

    `built` holds the arms of the series up to the one that the sessions are about, which stands last.
    """

    def __init__(
        self,
        profile: Profile,
        lane: str,
        built: dict[str, Arm],
        folder: Path | None = None,
        in_process: bool = False,
        pairs: int | None = None,
        say: Callable[[str], None] = review.say,
    ) -> None:
        self.say = say
        self.profile, self.lane, self.built, self.in_process = profile, lane, built, in_process
        self.measure = measure_of(profile)
        self.arms = (
            resolve_arm(self.measure.arms[0], list(built)),
            resolve_arm(self.measure.arms[1], list(built)),
        )
        self.names = (self.arms[0].text, self.arms[1].text)
        root = folder or Path("out", SUITE, lane, profile.name, words_of(self.names))
        self.folder = root.resolve()
        self.conditions = {
            **read_conditions(lane, vllm=built[self.arms[1].arm].manifest.vllm),
            "lineage": profile.lineage,
            "engine": "in-process" if in_process else "server",
        }
        self.judging = Judging(profile.experiment, lane, self.measure, self.conditions)
        self.pairs = self.judging.limit if pairs is None else checked_pairs(pairs)
        self.design = Design(self.judging.margin, self.pairs)
        self.noise = self.judging.noise
        self.deviation = self.judging.deviation

    # --- running ------------------------------------------------------------------

    def head(self) -> SessionHead:
        """The session that would begin now."""
        now = datetime.now(UTC)
        hashes = [f"{arm.text}:{self.built[arm.arm].manifest.series_hash}" for arm in self.arms]
        return SessionHead(
            schema=SCHEMA_VERSION,
            run=f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}",
            key=session_key(repr(self.profile), *hashes),
            profile=self.profile.name,
            arms=self.names,
            points=tuple(point.name for point in self.measure.points),
            judge=self.measure.judge,
            pairs=self.pairs,
            started=now.isoformat(timespec="seconds"),
            conditions=dict(self.conditions),
        )

    def run(self, *, resume: bool, fresh: bool = False, blocks: int | None = None) -> Outcome:
        """Run what is left, after census and soak; everything is on disk after each boot."""
        folder, head, earlier = self.open(resume=resume, fresh=fresh)
        stop = partial(self.stop, head)
        kept = finished_boots(folder)
        done = bool(kept) and (
            stop(kept) is not None or len(kept) >= 2 * head.pairs or any(boot.problems for boot in kept)
        )
        if not done:
            self.clean()
            setup, refused = self.warm_up(self.setup(folder), head, kept)
            if refused:
                return Outcome(head, tuple(kept), f"invalid: {refused[0]}", earlier, tuple(refused))
            progress = run_blocks(folder, head.pairs, partial(self.shown_boot, setup, head), stop, blocks)
        else:
            progress = run_blocks(folder, head.pairs, no_boot, stop, 0)
        return Outcome(head, progress.boots, progress.stopped, earlier)

    def open(
        self, *, resume: bool, fresh: bool
    ) -> tuple[Path, SessionHead, tuple[SessionHead, Sequence[BootMeasure]] | None]:
        """The session to run: the open one, a new one, or the one that confirms the last.

        Raises:
            SessionOpenError: one is open, and neither --resume nor --fresh was given.
            SessionError: it cannot be gone on with.
        """
        first, second = self.folder / "1", self.folder / "2"
        if fresh:
            for folder in (first, second):
                put_aside(folder)
        head = self.head()
        current = second if read_head(second) else first
        kept = read_head(current)
        if kept is None:
            if resume:
                resumed(first, head)
            return first, begin(first, head), None
        earlier = (kept_head(first), tuple(finished_boots(first))) if current == second else None
        if not self.ended(current, kept):
            if not resume:
                raise SessionOpenError(
                    f"{current}: session {kept.run} has not ended",
                    remedy="--resume to go on with it, --fresh to put it aside",
                )
            return current, resumed(current, head), earlier
        if resume:
            return current, resumed(current, head), earlier
        if current == first and self.held(first, kept):
            confirming = resumed_as(first, head)
            return second, begin(second, confirming), (kept, tuple(finished_boots(first)))
        for folder in (first, second):
            put_aside(folder)
        return first, begin(first, head), None

    def ended(self, folder: Path, head: SessionHead) -> bool:
        """Whether a session needs no further boot."""
        kept = finished_boots(folder)
        bad = any(boot.problems for boot in kept)
        return bad or len(kept) >= 2 * head.pairs or (bool(kept) and self.stop(head, kept) is not None)

    def held(self, folder: Path, head: SessionHead) -> bool:
        """Whether a session came out slower, and so has to be confirmed by a fresh one."""
        kept = finished_boots(folder)
        if session_problems(head, kept, self.deviation):
            return False
        judged = judge_points(head, kept, self.design, self.noise)
        return any(one.verdict is Verdict.REGRESSED for one in judged)

    def stop(self, head: SessionHead, boots: Sequence[BootMeasure]) -> str | None:
        """Why no further boot is needed."""
        return enough(head, boots, self.design, self.noise, self.deviation)

    def clean(self) -> None:
        """End engines that a killed run left behind."""
        for pid, mark in abandoned():
            self.say(f"ending process {pid}, left behind by a killed run\n")
            end_marked(mark)

    def setup(self, folder: Path) -> Setup:
        """What the boots have in common."""
        variables = dict(os.environ)
        if self.profile.model.path.startswith("${" + boots_command.DUMMY_VARIABLE):
            target, drafter = self.measure.dummy_layers
            write_dummy(self.folder / "model", target_layers=target, drafter_layers=drafter)
            variables[boots_command.DUMMY_VARIABLE] = str(self.folder / "model")
        return Setup(
            profile=self.profile,
            measure=self.measure,
            arms=self.arms,
            roots={name: arm.root for name, arm in self.built.items()},
            hashes={name: arm.manifest.series_hash for name, arm in self.built.items()},
            read_hash=lambda root: read_manifest(root).series_hash,
            folder=folder,
            variables=variables,
            machine=Machine(read_state, other_gpus, load_average),
            in_process=self.in_process,
            say=self.say,
        )

    def warm_up(
        self, setup: Setup, head: SessionHead, kept: Sequence[BootMeasure]
    ) -> tuple[Setup, list[str]]:
        """Announce the session; then one untimed boot per arm that proves its path, and a warm GPU.

        Returns:
            The setup of the timed boots, both arms with pools of one size, and what is wrong.
        """
        pools = kept_pools(setup.folder / CENSUS_FILE)
        soaks = 1 if pools and self.measure.soak_s else 0
        mean = sum(boot.seconds for boot in kept) / len(kept) if kept else self.measure.boot_s
        untimed = soaks if pools else 2
        self.say(render_announcement(head, len(kept), untimed, mean, self.measure.not_run))
        problems: list[str] = []
        if pools is None:
            seen = [census_boot(setup, "A", 0.0), census_boot(setup, "B", self.measure.soak_s)]
            problems += [problem for one in seen for problem in one.problems]
            pools = (seen[0].blocks, seen[1].blocks)
            if not problems:
                write_atomic(setup.folder / CENSUS_FILE, json.dumps({"blocks": pools}).encode() + b"\n")
        elif soaks:
            problems += soak_boot(setup, self.measure.soak_s)
        for problem in problems:
            self.say(f"invalid: {problem}\n")
        return dataclasses.replace(setup, profile=with_equal_pools(setup.profile, pools)), problems

    def shown_boot(self, setup: Setup, head: SessionHead, place: int, letter: str) -> BootMeasure:
        """One timed boot, and its lines of the table."""
        boot = timed_boot(setup, place, letter)
        left = 2 * head.pairs - place - 1
        self.say(render_boots([boot]))
        self.say(f"boot {place + 1} took {boot.seconds:.0f} s; at most {left} are left\n")
        return boot

    # --- judging ------------------------------------------------------------------

    def records(self, outcome: Outcome) -> list[Record]:
        """The records of a session, with those of the one that it confirms."""
        if outcome.refused:
            bad = [replace(boot, problems=outcome.refused) for boot in outcome.boots]
            return records_of(self.profile.experiment, outcome.head, bad, outcome.earlier)
        return records_of(
            self.profile.experiment, outcome.head, outcome.boots, outcome.earlier, self.deviation
        )

    def conclude(self, outcome: Outcome) -> ExitCode:
        """Show table, effect and verdict."""
        self.say("\n" + render_boots(outcome.boots))
        problems = [*outcome.refused, *session_problems(outcome.head, outcome.boots, self.deviation)]
        if problems:
            for problem in problems:
                self.say(f"invalid: {problem}\n")
            return self.last(Verdict.INVALID, problems[0])
        if outcome.boots:
            judged = judge_points(outcome.head, outcome.boots, self.design, self.noise)
            self.say(render_judged(outcome.head, judged, self.design))
        results = self.results(outcome)
        verdict, _ = overall((result.verdict for result in results), control_failed=False)
        if outcome.stopped is None:
            return self.last(Verdict.INCONCLUSIVE, f"{len(outcome.boots)} boots so far; go on with --resume")
        worst = next(result for result in results if result.verdict is verdict)
        return self.last(verdict, f"{outcome.stopped}; {worst.why}")

    def results(self, outcome: Outcome) -> list[AbResult]:
        """The verdict on each prompt, over both sessions where there are two."""
        higher = HIGHER_IS_BETTER.get(self.measure.judge, False)
        found = []
        for record in self.records(outcome):
            if record.metric == self.measure.judge:
                point = record.case.removeprefix(f"{self.profile.experiment}-")
                found.append(decide(record.sessions, self.design, self.noise(point), higher))
        return found

    def last(self, verdict: Verdict, detail: str) -> ExitCode:
        """Print the last line, return its code."""
        code = verdict.exit_code
        self.say(last_line(verdict, f"{self.profile.name} on {self.lane}: {detail}", code) + "\n")
        return code


def kept_head(folder: Path) -> SessionHead:
    """The head of a session that is there.

    Raises:
        UsageError: it is gone, and with it what the second session would confirm.
    """
    head = read_head(folder)
    if head is None:
        raise UsageError(f"{folder}: the session to confirm is gone", remedy="begin anew with --fresh")
    return head


def resumed_as(folder: Path, head: SessionHead) -> SessionHead:
    """The head of a fresh session under the conditions of the one in the folder.

    Raises:
        SessionError: the conditions differ, so that nothing could be confirmed.
    """
    resumed(folder, head)
    return head


def kept_pools(path: Path) -> tuple[int | None, int | None] | None:
    """Blocks of both arms' pools, by the census boots of a session; None before there were any.

    Raises:
        SessionError: the file is damaged.
    """
    if not path.exists():
        return None
    try:
        first, second = json.loads(read_limited(path, 1 << 16))["blocks"]
    except (ValueError, KeyError, TypeError) as error:
        raise SessionError(
            f"{path}: {error!r}", remedy=f"remove {path}: the census boots run again"
        ) from error
    return first, second


def no_boot(_place: int, _letter: str) -> BootMeasure:
    """For a session that is complete."""
    raise AssertionError("a complete session needs no boot")


def other_gpus() -> list[GpuState]:
    """The state of the host's other GPUs."""
    return [read_state(index) for index in range(1, len(read_gpus()))]


def words_of(arms: Sequence[str]) -> str:
    """A folder's name for two arms."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "_", "-vs-".join(arms))
