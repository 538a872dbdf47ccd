"""The throughput sessions of a profile on this machine: opened, run, gone on with, confirmed, judged."""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from ci.commands import boots as boots_command
from ci.commands import review
from ci.commands.throughput_rules import SUITE, Judging
from ci.engine import untimed
from ci.engine.abba import end_of, finished_boots, open_session, run_blocks
from ci.engine.dummy import write_dummy
from ci.engine.identity import resolve_arm
from ci.engine.orphans import abandoned, end_marked
from ci.engine.profile import Measure, Profile, filled
from ci.engine.session import session_key
from ci.engine.timed_boot import Machine, Setup, timed_boot
from ci.errors import ExitCode, UsageError
from ci.gate.policy import MAX_PAIRS, MIN_PAIRS
from ci.gate.throughput import (
    awaits_confirmation,
    enough,
    judge_points,
    records_of,
    results_of,
    unread_problems,
)
from ci.gate.throughput_validity import session_problems
from ci.gate.verdict import Verdict, last_line, overall
from ci.lanes.conditions import read_conditions, read_gpus
from ci.lanes.gpu import GpuState, load_average, read_state
from ci.lanes.run import OUT_VARIABLE
from ci.report.throughput import render_announcement, render_boots, render_judged, render_texts
from ci.results.lock import HeldError, held
from ci.results.records import Record
from ci.results.throughput import SCHEMA_VERSION, BootMeasure, KeptSession, SessionHead
from ci.stack.arms import Arm
from ci.stack.manifest import read_manifest

LOCK_FILE = ".lock"
"""In a folder of sessions: held while one of them runs."""


def checked_pairs(pairs: int) -> int:
    """A number of pairs that makes whole blocks.

    Raises:
        UsageError: it does not, or they are too few for a verdict.
    """
    if pairs % 2 or not MIN_PAIRS <= pairs <= MAX_PAIRS:
        raise UsageError(f"--pairs {pairs}: an even number from {MIN_PAIRS} to {MAX_PAIRS}")
    return pairs


def measure_of(profile: Profile) -> Measure:
    """What a profile times.

    Raises:
        UsageError: it times nothing.
    """
    if profile.measure is None:
        raise UsageError(
            f"{profile.name} times nothing",
            remedy="choose a profile with a [measure] table: docs/throughput.md",
        )
    return profile.measure


def models_of(profile: Profile, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Model and drafter that the caller names; none where a dummy is generated.

    Raises:
        ProfileError: a variable is not set.
    """
    model = profile.model
    if generates_model(profile):
        return ()
    return tuple(filled(path, variables) for path in (model.path, model.drafter) if path)


def generates_model(profile: Profile) -> bool:
    """Whether a profile's model is written by the session that needs it."""
    return profile.model.path.startswith("${" + boots_command.DUMMY_VARIABLE)


@dataclass(frozen=True)
class Outcome:
    """A session as far as it has come."""

    head: SessionHead
    boots: tuple[BootMeasure, ...]
    stopped: str | None
    """None if boots are left to run."""
    earlier: KeptSession | None
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
        self.variables = dict(os.environ)
        self.models = models_of(profile, self.variables)
        self.arms = (
            resolve_arm(self.measure.arms[0], list(built)),
            resolve_arm(self.measure.arms[1], list(built)),
        )
        self.names = (self.arms[0].text, self.arms[1].text)
        root = folder or review.out_folder(SUITE, lane, profile.name, words_of(self.names))
        self.folder = root.absolute()
        self.conditions = {
            **read_conditions(lane, vllm=built[self.arms[1].arm].manifest.vllm),
            "lineage": profile.lineage,
            "engine": "in-process" if in_process else "server",
        }
        judging = Judging(profile.experiment, lane, self.measure, self.conditions)
        self.pairs = judging.limit if pairs is None else pairs
        self.judges = judging.judges(self.pairs)
        self.deviation = judging.deviation

    # --- running ------------------------------------------------------------------

    def head(self) -> SessionHead:
        """The session that would begin now."""
        now = datetime.now(UTC)
        hashes = [f"{arm.text}:{self.built[arm.arm].manifest.series_hash}" for arm in self.arms]
        return SessionHead(
            schema=SCHEMA_VERSION,
            run=f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}",
            key=session_key(repr(self.profile), *self.models, *hashes),
            profile=self.profile.name,
            arms=self.names,
            points=tuple(point.name for point in self.measure.points),
            judge=self.measure.judge,
            pairs=self.pairs,
            started=now.isoformat(timespec="seconds"),
            conditions=dict(self.conditions),
            models=self.models,
        )

    def run(self, *, resume: bool, fresh: bool = False, blocks: int | None = None) -> Outcome:
        """Run what is left, after census and soak; everything is on disk after each boot.

        Raises:
            UsageError: another run has a session in the folder.
            GateError: as for `open_session` and the boots.
        """
        with alone(self.folder, f"throughput {self.profile.name}"):
            opened = open_session(
                self.folder, self.head(), self.ended, self.held, self.spoilt, resume=resume, fresh=fresh
            )
            folder, head = opened.folder, opened.head
            for path in opened.aside:
                self.say(f"put aside: {path}\n")
            kept = tuple(finished_boots(folder))
            stop = partial(self.stop, head, earlier=opened.earlier)
            stopped = end_of(kept, head.pairs, stop)
            if stopped is not None:
                return Outcome(head, kept, stopped, opened.earlier)
            self.clean()
            setup, refused = self.warm_up(self.setup(folder), head, kept)
            if refused:
                return Outcome(head, kept, f"invalid: {refused[0]}", opened.earlier, tuple(refused))
            boot_one = partial(self.shown_boot, setup, head)
            progress = run_blocks(folder, head.pairs, boot_one, stop, blocks)
            return Outcome(head, progress.boots, progress.stopped, opened.earlier)

    def ended(self, head: SessionHead, boots: Sequence[BootMeasure], earlier: KeptSession | None) -> bool:
        """Whether a session needs no further boot."""
        return end_of(boots, head.pairs, partial(self.stop, head, earlier=earlier)) is not None

    def held(self, head: SessionHead, boots: Sequence[BootMeasure]) -> bool:
        """Whether a session came out worse, and so has to be confirmed by a fresh one."""
        return awaits_confirmation(head, boots, self.judges, self.deviation)

    def spoilt(self, head: SessionHead, boots: Sequence[BootMeasure]) -> bool:
        """Whether the boots of a session must not be compared."""
        return bool(
            session_problems(head, boots, self.deviation) or unread_problems(head, boots, self.judges)
        )

    def stop(
        self, head: SessionHead, boots: Sequence[BootMeasure], earlier: KeptSession | None
    ) -> str | None:
        """Why no further boot is needed."""
        return enough(head, boots, self.judges, self.deviation, earlier)

    def clean(self) -> None:
        """End engines that a killed run left behind."""
        for pid, mark in abandoned():
            self.say(f"ending process {pid}, left behind by a killed run\n")
            end_marked(mark)

    def setup(self, folder: Path) -> Setup:
        """What the boots have in common."""
        variables = dict(self.variables)
        if generates_model(self.profile):
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
        """Announce the session; then its untimed boots.

        Returns:
            The setup of the timed boots, and what is wrong.
        """
        mean = sum(boot.seconds for boot in kept) / len(kept) if kept else self.measure.boot_s
        before = untimed.boots_before(setup.folder, self.measure)
        self.say(render_announcement(head, len(kept), before, mean, self.measure.not_run))
        profile, problems = untimed.warm_up(setup)
        return dataclasses.replace(setup, profile=profile), problems

    def shown_boot(self, setup: Setup, head: SessionHead, place: int, letter: str) -> BootMeasure:
        """One timed boot, and its lines of the table."""
        boot = replace(timed_boot(setup, place, letter), session=head.run)
        left = 2 * head.pairs - place - 1
        self.say(render_boots([boot]))
        self.say(f"boot {place + 1} took {boot.seconds:.0f} s; at most {left} are left\n")
        return boot

    # --- judging ------------------------------------------------------------------

    def records(self, outcome: Outcome) -> list[Record]:
        """The records of a session, with those of the one that it confirms."""
        return records_of(
            self.profile.experiment,
            outcome.head,
            outcome.boots,
            outcome.earlier,
            self.deviation,
            outcome.refused,
        )

    def problems(self, outcome: Outcome) -> list[str]:
        """Why the boots must not be compared; empty if they may."""
        head, boots = outcome.head, outcome.boots
        return [
            *outcome.refused,
            *session_problems(head, boots, self.deviation),
            *(unread_problems(head, boots, self.judges) if boots else []),
        ]

    def conclude(self, outcome: Outcome) -> ExitCode:
        """Show table, effect and verdict."""
        self.say("\n" + render_boots(outcome.boots))
        if problems := self.problems(outcome):
            for problem in problems:
                self.say(f"invalid: {problem}\n")
            return self.last(Verdict.INVALID, problems[0])
        if outcome.boots:
            judged = judge_points(outcome.head, outcome.boots, self.judges, outcome.earlier)
            self.say(render_judged(judged))
            self.say(render_texts(outcome.head, outcome.boots))
        results = results_of(self.records(outcome), self.profile.experiment, self.judges)
        verdict, _ = overall((result.verdict for result in results), control_failed=False)
        if outcome.stopped is None:
            return self.last(Verdict.INCONCLUSIVE, f"{len(outcome.boots)} boots so far; go on with --resume")
        worst = max(
            (result for result in results if result.verdict is verdict),
            key=lambda result: result.awaiting,
        )
        return self.last(verdict, f"{outcome.stopped}; {worst.why}")

    def last(self, verdict: Verdict, detail: str) -> ExitCode:
        """Print the last line, return its code."""
        code = verdict.exit_code
        self.say(last_line(verdict, f"{self.profile.name} on {self.lane}: {detail}", code) + "\n")
        return code


@contextmanager
def alone(folder: Path, what: str) -> Iterator[None]:
    """Keep a folder of sessions from other runs, such as one on another GPU; a killed run keeps nothing.

    Raises:
        UsageError: another run has it, and says for what.
    """
    try:
        with held(folder / LOCK_FILE, what):
            yield
    except HeldError as error:
        raise UsageError(
            f"{folder}: held by {error.holder}",
            cause="another run has a session there",
            remedy="wait until that has ended, or choose another folder: --session DIR, "
            f"or {OUT_VARIABLE}=DIR where nox runs it",
        ) from error


def other_gpus() -> list[GpuState]:
    """The state of the host's other GPUs: all but the one that CUDA shows first."""
    own = read_state().uuid
    states = [read_state(index) for index in range(len(read_gpus()))]
    return states[1:] if own is None else [one for one in states if one.uuid != own]


def words_of(arms: Sequence[str]) -> str:
    """A folder's name for two arms."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "_", "-vs-".join(arms))
