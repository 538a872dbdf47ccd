"""Which jobs an event gets: ``matrix.toml`` and an event in, cells and reasons out.  Pure.

A cell is one job of a workflow.  Whatever is not a cell has a reason, so that a
lane that did not run can be told from a lane that nobody thought of.
"""

from __future__ import annotations

import enum
import hashlib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ci.errors import GateError, UsageError
from ci.lanes.event import Event, EventKind

MATRIX_FILE = Path(__file__).with_name("matrix.toml")
MATRIX_SCHEMA = 1
MAX_CELLS = 256
"""GitHub refuses a matrix with more jobs."""
SELF_HOSTED = "self-hosted"


class MatrixError(GateError):
    """The matrix file cannot be used as written."""


class EmptyMatrixError(GateError):
    """No job at all came out where one must."""


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Suites that run one after the other on one machine."""

    suites: tuple[str, ...]
    arm: str = ""
    """Empty: the whole series."""
    minutes: int | None = None
    """Another limit than the lane's."""
    events: tuple[EventKind, ...] | None = None
    """Fewer events than the lane's, for what takes hours."""


class Lane(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of machine."""

    name: str
    runs_on: tuple[str, ...]
    """Labels that a runner must have."""
    minutes: int
    """What a job may take."""
    environments: tuple[str, ...]
    """Of ``native``, ``container``, ``wsl2``: where its runs may happen."""
    events: tuple[EventKind, ...]
    touches: tuple[str, ...]
    """Beginnings of paths, one of which a change must touch; none means that every change needs the lane."""
    job: tuple[Job, ...]
    gpu: str | None = None
    """As the driver names it."""
    architecture: str | None = None
    memory_gib: int | None = None
    profiles: tuple[str, ...] = ()
    """Launch profiles of the engine that belong to this lane."""

    @property
    def self_hosted(self) -> bool:
        """True if its runner is a machine of somebody."""
        return SELF_HOSTED in self.runs_on


class Matrix(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    schema: int
    label: str
    """What a maintainer puts on a pull request to have it measured on GPUs."""
    environment: str
    """GitHub's deployment environment of the self-hosted jobs; its reviewers approve each."""
    main_environment: str
    """The one for events whose code is on main, and so was reviewed."""
    lane: tuple[Lane, ...]


class Where(enum.Enum):
    """The workflow that asks: machines of GitHub, or our own."""

    HOSTED = "hosted"
    SELF_HOSTED = "self-hosted"


class Why(enum.Enum):
    """Why a lane gets no job."""

    NEEDS_MAINTAINER = "needs a maintainer"
    NEEDS_LABEL = "needs the label"
    UNTOUCHED = "not touched"
    OTHER_EVENT = "not for this event"
    NOT_CHOSEN = "not chosen"


@dataclass(frozen=True)
class Cell:
    """One job of the workflow."""

    id: str
    """Names the artifact: letters, digits, dots and hyphens only."""
    lane: str
    suites: str
    """Sessions, joined by spaces."""
    arm: str
    runs_on: tuple[str, ...]
    minutes: int
    environment: str
    """GitHub's deployment environment; empty on hosted machines."""


@dataclass(frozen=True)
class LeftOut:
    """A lane without a job."""

    lane: str
    why: Why
    reason: str


@dataclass(frozen=True)
class JobPlan:
    """Everything that one event gets, over both workflows."""

    cells: tuple[Cell, ...]
    left_out: tuple[LeftOut, ...]
    not_due: frozenset[tuple[str, str]] = frozenset()
    """Lane and suite of each run that the matrix has for other events, or that was not chosen."""

    def of(self, where: Where) -> tuple[Cell, ...]:
        """The cells of one workflow."""
        return tuple(
            cell for cell in self.cells if (SELF_HOSTED in cell.runs_on) is (where is Where.SELF_HOSTED)
        )


def parse_matrix(text: str, path: str = MATRIX_FILE.name) -> Matrix:
    """Read the matrix file.

    Raises:
        MatrixError: with what is wrong; a wrong matrix never becomes a smaller one.
    """
    try:
        matrix = msgspec.convert(tomllib.loads(text), Matrix)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise MatrixError(f"{path}: {error}") from error
    for problem in _problems(matrix):
        raise MatrixError(f"{path}: {problem}")
    return matrix


def _problems(matrix: Matrix) -> list[str]:
    problems = (
        [] if matrix.schema == MATRIX_SCHEMA else [f"schema {matrix.schema}, this reads {MATRIX_SCHEMA}"]
    )
    names = [lane.name for lane in matrix.lane]
    problems += [f"lane {name} stands twice" for name in sorted({n for n in names if names.count(n) > 1})]
    for lane in matrix.lane:
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,30}", lane.name):
            problems.append(f"lane {lane.name!r}: a name has a-z, 0-9, '.' and '-'")
        if not lane.job or not all(job.suites for job in lane.job):
            problems.append(f"lane {lane.name}: a lane has jobs, and a job has suites")
        if not lane.runs_on or not lane.events:
            problems.append(f"lane {lane.name}: neither runs_on nor events may be empty")
        if not all(set(job.events or ()) <= set(lane.events) for job in lane.job):
            problems.append(f"lane {lane.name}: a job has no events that its lane has not")
        if lane.self_hosted != (lane.gpu is not None):
            problems.append(f"lane {lane.name}: a lane with a GPU is {SELF_HOSTED}, and no other is")
        if min([lane.minutes, *(job.minutes or 1 for job in lane.job)]) < 1:
            problems.append(f"lane {lane.name}: minutes are positive")
    return problems


def plan_jobs(matrix: Matrix, event: Event, lanes: Sequence[str] = (), suites: Sequence[str] = ()) -> JobPlan:
    """The jobs of an event, and a reason for every lane without one.

    Args:
        matrix: the matrix file.
        event: what happened.
        lanes: a manual run's choice of lanes; none means all.
        suites: its choice of suites; none means all.

    Raises:
        UsageError: a lane or suite was chosen that the matrix does not have.
        MatrixError: more cells than GitHub runs.
        EmptyMatrixError: nothing came out, where something was asked for or is always due.
    """
    _check_choice(matrix, lanes, suites)
    cells: list[Cell] = []
    left_out: list[LeftOut] = []
    for lane in matrix.lane:
        reason = _left_out(lane, matrix, event, lanes)
        listed = [job for job in lane.job if job.events is None or event.kind in job.events]
        jobs = [] if reason else _cells(lane, listed, environment_of(matrix, event), suites)
        if reason is None and not jobs:
            words = f"has none of: {', '.join(suites)}" if suites else "has no job for this event"
            reason = LeftOut(lane.name, Why.NOT_CHOSEN, words)
        cells += jobs
        left_out += [reason] if reason else []
    if len(cells) > MAX_CELLS:
        raise MatrixError(f"{len(cells)} jobs, GitHub runs at most {MAX_CELLS} of one matrix")
    if not cells:
        why = "; ".join(f"{item.lane}: {item.reason}" for item in left_out)
        raise EmptyMatrixError(
            f"no lane has a job for this event: {why}", remedy="python -m ci matrix --help"
        )
    due = {(cell.lane, suite) for cell in cells for suite in cell.suites.split()}
    every = {(lane.name, suite) for lane in matrix.lane for job in lane.job for suite in job.suites}
    return JobPlan(tuple(cells), tuple(left_out), frozenset(every - due))


def _left_out(lane: Lane, matrix: Matrix, event: Event, chosen: Sequence[str]) -> LeftOut | None:
    """The first reason against the lane, those of safety before those of thrift."""
    if event.kind not in lane.events:
        return LeftOut(lane.name, Why.OTHER_EVENT, f"is not run for a {event.kind.value}")
    if lane.self_hosted and event.foreign:
        return LeftOut(
            lane.name, Why.NEEDS_MAINTAINER,
            "the change comes from a fork or does not say whence; such code never reaches a machine of ours; "
            "a maintainer reviews it and pushes it to a branch here",
        )  # fmt: skip
    if chosen and lane.name not in chosen:
        return LeftOut(lane.name, Why.NOT_CHOSEN, "was not chosen")
    if not _touched(lane, event):
        return LeftOut(lane.name, Why.UNTOUCHED, f"nothing of {', '.join(lane.touches)} changed")
    if lane.self_hosted and event.kind is EventKind.PULL_REQUEST and matrix.label not in event.labels:
        return LeftOut(
            lane.name, Why.NEEDS_LABEL, f"is due; a maintainer adds the label {matrix.label!r} to have it run"
        )
    return None


def _touched(lane: Lane, event: Event) -> bool:
    """Whether the change needs the lane; a change that is not known needs all of them."""
    if not lane.touches or event.changed is None or event.kind in (EventKind.SCHEDULE, EventKind.MANUAL):
        return True
    return any(path.startswith(lane.touches) for path in event.changed)


def environment_of(matrix: Matrix, event: Event) -> str:
    """The deployment environment of a self-hosted job: reviewed, unless its code is on main already."""
    on_main = event.kind in (EventKind.PUSH, EventKind.SCHEDULE) and not event.foreign
    return matrix.main_environment if on_main else matrix.environment


def _cells(lane: Lane, jobs: Sequence[Job], self_hosted: str, wanted: Sequence[str]) -> list[Cell]:
    cells = []
    for job in jobs:
        suites = [suite for suite in job.suites if not wanted or suite in wanted]
        if suites:
            environment = self_hosted if lane.self_hosted else ""
            minutes = job.minutes or lane.minutes
            name = slug(lane.name, job.arm, *suites)
            cells.append(Cell(name, lane.name, " ".join(suites), job.arm, lane.runs_on, minutes, environment))
    return cells


def slug(*words: str) -> str:
    """A name for an artifact: readable, unique for other words, and free of what artifacts may not have."""
    text = "-".join(words)
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60]
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _check_choice(matrix: Matrix, lanes: Sequence[str], suites: Sequence[str]) -> None:
    known = {lane.name for lane in matrix.lane}
    planned = {suite for lane in matrix.lane for job in lane.job for suite in job.suites}
    for word, chosen, there in (("lane", lanes, known), ("suite", suites, planned)):
        if unknown := sorted(set(chosen) - there):
            raise UsageError(
                f"the matrix has no {word} {', '.join(unknown)}", remedy=f"one of: {', '.join(sorted(there))}"
            )
