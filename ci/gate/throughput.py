"""What the boots of a throughput session mean: how they are judged, when they are enough, their records."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from ci.gate.ab import (
    CONFIRM_ERROR,
    ERROR,
    AbResult,
    Design,
    Estimate,
    Noise,
    decide,
    decide_session,
    pair_ratios,
    said_of,
)
from ci.gate.throughput_validity import PAIRED, UNITS, not_positive, number_of, session_problems
from ci.gate.verdict import Verdict
from ci.results.records import AbSession, Record
from ci.results.throughput import BootMeasure, KeptSession, PointMeasure, SessionHead


@dataclass(frozen=True)
class Judge:
    """How one metric of every prompt is judged."""

    metric: str
    higher_is_better: bool
    """False for times."""
    design: Design
    noise_of: Callable[[str], Noise]
    """Of this metric at a prompt, from the lane's A/A sessions."""


@dataclass(frozen=True)
class Judged:
    """One judged metric of a prompt so far."""

    point: str
    metric: str
    verdict: Verdict
    estimate: Estimate
    design: Design
    reason: str | None = None
    """Of a verdict `invalid`."""
    before: Verdict | None = None
    """What the session that this one confirms or not said of it; None where there is none."""
    closed: bool = False
    """Whether that session has the last word on it: it found no loss, and was not cut short."""

    @property
    def settled(self) -> bool:
        """Whether no further boot can change what is said of it."""
        return self.closed or self.verdict in (Verdict.PASS, Verdict.IMPROVED)


def session_of(head: SessionHead, boots: Sequence[BootMeasure], point: str, metric: str) -> AbSession | str:
    """The boots of one metric as a session; the reason where a value is not known or no positive number."""
    values: list[float] = []
    for boot in boots:
        number, problem = number_of(boot, point, metric), not_positive(boot, point, metric)
        if number.value is None or problem:
            return problem or f"boot {boot.place}: {number.reason}"
        values.append(number.value)
    return AbSession(head.run, head.arms, "".join(boot.letter for boot in boots), tuple(values))


def judge_points(
    head: SessionHead,
    boots: Sequence[BootMeasure],
    judges: Sequence[Judge],
    earlier: KeptSession | None = None,
) -> list[Judged]:
    """Every judged metric of every prompt, as this session alone would be judged now.

    Args:
        head: the session.
        boots: in their order.
        judges: of its metrics.
        earlier: the session that this one confirms or not, in what came out worse there.
    """
    said = judge_points(*earlier, judges) if earlier else []
    before = {(one.metric, one.point): one for one in said}
    found = []
    for judge in judges:
        for point in head.points:
            verdict, estimate, reason = Verdict.INVALID, Estimate(0, 0.0), None
            then = before.get((judge.metric, point))
            error = CONFIRM_ERROR if then and then.verdict is Verdict.REGRESSED else ERROR
            session = session_of(head, boots, point, judge.metric)
            if isinstance(session, AbSession):
                ratios = pair_ratios(session, judge.higher_is_better)
                verdict, estimate = decide_session(ratios, judge.design, judge.noise_of(point), error)
                verdict = said_of(head.arms, verdict)
            else:
                reason = session
            one = Judged(point, judge.metric, verdict, estimate, judge.design, reason)
            found.append(one if then is None else after(one, then))
    return found


def after(now: Judged, then: Judged) -> Judged:
    """A judged metric of a confirming session, with what the session before it said."""
    open_early = then.verdict is Verdict.INCONCLUSIVE and then.estimate.pairs < then.design.max_pairs
    closed = then.verdict is not Verdict.REGRESSED and not open_early
    return dataclasses.replace(now, before=then.verdict, closed=closed)


def unread_problems(head: SessionHead, boots: Sequence[BootMeasure], judges: Sequence[Judge]) -> list[str]:
    """Judged metrics of which no session can be made, each with the boot that is to blame."""
    return [
        f"{one.metric} of {one.point} cannot be judged: {one.reason}"
        for one in judge_points(head, boots, judges)
        if one.verdict is Verdict.INVALID
    ]


def enough(
    head: SessionHead,
    boots: Sequence[BootMeasure],
    judges: Sequence[Judge],
    noise_of_boot: float,
    earlier: KeptSession | None = None,
) -> str | None:
    """Why no further boot is needed: the session is invalid, red is certain, or every prompt is decided.

    In a session that confirms another, red is certain where that one was red: two prompts that are red in
    one session each confirm nothing.

    Args:
        head: the session.
        boots: in their order.
        judges: of its metrics, the profile's first, all with the session's number of pairs.
        noise_of_boot: as for `session_problems`.
        earlier: as for `judge_points`.
    """
    problems = [*session_problems(head, boots, noise_of_boot), *unread_problems(head, boots, judges)]
    if problems:
        return f"invalid: {problems[0]}"
    judged = judge_points(head, boots, judges, earlier)
    if head.arms[0] == head.arms[1]:
        return None  # an arm against itself is run for its noise: ending early would make that look small
    if any(len(boots) not in [2 * pairs for pairs in judge.design.sizes] for judge in judges):
        return None  # between two looks nobody looks
    reds = [one for one in judged if one.verdict is Verdict.REGRESSED]
    red = next((one for one in reds if one.before in (None, Verdict.REGRESSED)), None)
    if red is not None:
        return f"red is certain: {red.metric} of {red.point}"
    return "every prompt is decided" if all(one.settled for one in judged) else None


def awaits_confirmation(
    head: SessionHead, boots: Sequence[BootMeasure], judges: Sequence[Judge], noise_of_boot: float
) -> bool:
    """Whether a session came out worse in anything that is judged, and so a fresh one has to confirm it.

    No fresh session makes an invalid one valid.
    """
    if session_problems(head, boots, noise_of_boot) or unread_problems(head, boots, judges):
        return False
    return any(one.verdict is Verdict.REGRESSED for one in judge_points(head, boots, judges))


def results_of(records: Sequence[Record], prefix: str, judges: Sequence[Judge]) -> list[AbResult]:
    """The verdict on each judged record, over both sessions where there are two.

    Args:
        records: of `records_of`.
        prefix: of their case names.
        judges: of the judged metrics.
    """
    found = []
    for judge in judges:
        for one in records:
            if one.metric == judge.metric:
                noise = judge.noise_of(one.case.removeprefix(f"{prefix}-"))
                result = decide(one.sessions, judge.design, noise, judge.higher_is_better)
                found.append(result if one.reason is None else dataclasses.replace(result, why=one.reason))
    return found


def records_of(
    prefix: str,
    head: SessionHead,
    boots: Sequence[BootMeasure],
    earlier: KeptSession | None = None,
    noise_of_boot: float = 0.0,
    refused: Sequence[str] = (),
) -> list[Record]:
    """The records of a session; none of its numbers has a value where the session is invalid.

    Args:
        prefix: of the case names: the experiment.
        head: the session.
        boots: its boots, in order.
        earlier: the session that this one confirms or not.
        noise_of_boot: as for `session_problems`.
        refused: why nothing was timed, or must not be compared, beside what the boots show.
    """
    sessions = [*([earlier] if earlier else []), (head, boots)]
    problems = [*refused] if boots or refused else ["no boot was run"]
    problems += [problem for one, its in sessions for problem in session_problems(one, its, noise_of_boot)]
    if len({(one.arms, one.points) for one, _ in sessions}) > 1:
        problems.append("the two sessions compare something else")
    found = []
    for point in head.points:
        for metric in PAIRED:
            found.append(paired_record(f"{prefix}-{point}", point, metric, sessions, problems))
        found += single_records(f"{prefix}-{point}", point, boots, problems)
    return found


def paired_record(
    case: str,
    point: str,
    metric: str,
    sessions: Sequence[KeptSession],
    problems: Sequence[str],
) -> Record:
    """One metric with its boots; the value is the mean of arm B's."""
    unit = UNITS[metric]
    if problems:
        return Record(case, metric, None, unit, reason=f"the session is invalid: {problems[0]}")
    made = [session_of(one, its, point, metric) for one, its in sessions]
    refused = next((one for one in made if isinstance(one, str)), None)
    if refused is not None:
        return Record(case, metric, None, unit, reason=refused)
    usable = tuple(one for one in made if isinstance(one, AbSession))
    return Record(case, metric, mean_of_subject(usable[-1]), unit, sessions=usable)


def mean_of_subject(session: AbSession) -> float:
    """The mean over the boots of arm B."""
    return fmean(value for place, value in enumerate(session.values) if session.order[place] == "B")


def single_records(
    case: str, point: str, boots: Sequence[BootMeasure], problems: Sequence[str]
) -> list[Record]:
    """Counts that are equal in all boots, and whether the arms wrote the same text."""
    reason = f"the session is invalid: {problems[0]}" if problems else None
    measured: list[PointMeasure] = [one for boot in boots if (one := boot.point(point))]
    if not measured or reason:
        why = reason or "not measured"
        return [
            Record(case, "prompt_tokens", None, "tokens", reason=why),
            Record(case, "texts", None, "texts", reason=why),
        ]
    return [
        Record(case, "prompt_tokens", next(one.prompt_tokens for one in measured), "tokens"),
        Record(case, "texts", len({one.text_sha256 for one in measured}), "texts"),
    ]


def boot_deviation(noises: Iterable[Noise]) -> float:
    """Standard deviation of one boot, as a fraction, from the lane's A/A sessions; 0 where there are none."""
    squares = df = 0.0
    for noise in noises:
        squares, df = squares + noise.squares, df + noise.df
    return math.sqrt(squares / df / 2) if df > 0 else 0.0
