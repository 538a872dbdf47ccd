"""What the boots of a throughput session mean: whether they may be compared, and their records.  Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from ci.gate.ab import ERROR, AbResult, Design, Estimate, Noise, decide, decide_session, pair_ratios
from ci.gate.cell import FLAG_MARK
from ci.gate.looks import PAIRS_PER_BLOCK
from ci.gate.verdict import Verdict
from ci.results.records import AbSession, Record
from ci.results.throughput import BootMeasure, Number, PointMeasure, SessionHead

SHARED = "shared:"
"""How a session's lineage begins in which all boots have one compile cache."""
UNITS = {
    "step_ms": "ms",
    "isolated_step_ms": "ms",
    "prefill_ms": "ms",
    "decode_tok_s": "tok/s",
    "isolated_tok_s": "tok/s",
    "tokens_per_step": "tokens",
}
PAIRED = tuple(UNITS)
"""Metrics that become records with their boots."""
PACES = ("step_ms", "isolated_step_ms", "decode_tok_s", "isolated_tok_s")
"""What tells how fast a boot was, best first: where steps could not be counted, the rates of tokens do."""
LEAST_AGREEMENT = 0.02
"""Boots of one arm from one cache may differ by so much before anything is suspected; the published spread of
four boots is 0.9%, and a poisoned artifact costs 160%."""
DEVIATIONS = 5.0
"""Of the lane's noise, where that is known and larger."""
MOST_AGREEMENT = 1.0
"""However noisy a lane is: a boot that takes twice as long has another reason."""
LEAST, MOST = 1e-9, 1e9
"""Milliseconds, tokens and tokens per second outside are no measurement."""


def session_problems(
    head: SessionHead, boots: Sequence[BootMeasure], noise_of_boot: float = 0.0
) -> list[str]:
    """Why the boots must not be compared; empty if they may.

    Args:
        head: the session.
        boots: in their order.
        noise_of_boot: standard deviation of one boot on this lane, as a fraction; 0 where it is not known.
    """
    problems = [f"boot {boot.place} ({boot.arm}): {problem}" for boot in boots for problem in boot.problems]
    problems += [
        problem
        for boot in boots
        for point in head.points
        for metric in PAIRED
        if (problem := not_positive(boot, point, metric))
    ]
    if problems:
        return problems
    for boot in boots:
        if boot.arm != head.arms["AB".index(boot.letter)]:
            problems.append(f"boot {boot.place} is {boot.arm}, not {head.arms['AB'.index(boot.letter)]}")
        problems += [f"boot {boot.place} ({boot.arm}): {problem}" for problem in seen_problems(boot)]
        missing = [point for point in head.points if boot.point(point) is None]
        if missing:
            problems.append(f"boot {boot.place} did not measure {', '.join(missing)}")
    unread = [boot for boot in boots if boot.pool_tokens.value is None]
    problems += [
        f"boot {boot.place}: its pool tokens are not known: {boot.pool_tokens.reason}" for boot in unread
    ]
    problems += [] if unread else unequal(boots, "pool tokens", lambda boot: boot.pool_tokens.value)
    for point in head.points:
        for what, field in (
            ("prompt tokens", "prompt_tokens"),
            ("generated tokens", "completion_tokens"),
            ("prompts", "prompt_sha256"),
        ):
            problems += unequal(boots, f"{point}: {what}", value_of(point, field))
    for letter in "AB":
        same = [boot for boot in boots if boot.letter == letter]
        problems += unequal(same, f"arm {letter}: plan lines", lambda boot: boot.seen and boot.seen.scratch)
        problems += unequal(same, f"arm {letter}: series", lambda boot: boot.seen and boot.seen.series_hash)
        problems += disagreements(same, head, noise_of_boot)
        if str(head.conditions.get("lineage", "")).startswith(SHARED):
            problems += [
                f"boot {boot.place} compiled again what boot {same[0].place} had compiled: "
                "the session's cache was removed in between"
                for boot in same[1:]
                if boot.modules_compiled and same[0].modules_compiled
            ]
    if any(boot.modules_loaded for boot in boots) and not any(boot.modules_compiled for boot in boots):
        problems.append(
            "no boot compiled the code that the others loaded, so a poisoned artifact could not be seen"
        )
    for start in range(0, len(boots), 2 * PAIRS_PER_BLOCK):
        block = boots[start : start + 2 * PAIRS_PER_BLOCK]
        problems += unequal(block, f"block from boot {start}: GPU", gpu_of)
    return problems


def seen_problems(boot: BootMeasure) -> list[str]:
    """What the record of its processes shows: that a boot is not the arm that it is taken for."""
    if boot.seen is None or not boot.seen.processes:
        return ["no process of the engine was looked at"]
    problems = [] if boot.seen.root_first else ["an engine process did not import vLLM from the arm"]
    for word in boot.arm.split(FLAG_MARK)[1:]:
        name, _, value = word.partition("=")
        found = boot.seen.flags.get(name)
        problems += [] if found == value else [f"{name} was {found!r} in the engine's processes"]
    return problems


def gpu_of(boot: BootMeasure) -> object:
    """The card that a boot ran on."""
    return boot.machine.get("gpu_uuid")


def value_of(point: str, field: str) -> Callable[[BootMeasure], object]:
    """Reads a field of one prompt; None where the boot lacks it."""

    def read(boot: BootMeasure) -> object:
        measured = boot.point(point)
        return None if measured is None else getattr(measured, field)

    return read


def number_of(boot: BootMeasure, point: str, metric: str) -> Number:
    """A metric of one prompt, or why there is none."""
    measured = boot.point(point)
    number: Number = getattr(measured, metric) if measured else Number(None, "not measured")
    return number


def not_positive(boot: BootMeasure, point: str, metric: str) -> str | None:
    """A sentence if a metric has a value that no ratio can be made of; a value that is not known is none."""
    value = number_of(boot, point, metric).value
    if value is None or LEAST <= value <= MOST:
        return None
    return (
        f"boot {boot.place}: {metric} of {point} is {value:g}, "
        f"not a positive number from {LEAST:g} to {MOST:g}"
    )


def unequal(boots: Sequence[BootMeasure], what: str, read: Callable[[BootMeasure], object]) -> list[str]:
    """A sentence if the boots differ in something that has to be equal."""
    values = list(dict.fromkeys(read(boot) for boot in boots))
    if len(values) < 2:
        return []
    by_arm = [f"{value} in boot {next(b.place for b in boots if read(b) == value)}" for value in values]
    return [f"{what} differ: {', '.join(by_arm)}"]


def disagreements(boots: Sequence[BootMeasure], head: SessionHead, noise_of_boot: float) -> list[str]:
    """Boots of one arm from one cache that do not agree: noise, or an artifact that is slow where loaded.

    Boots that each compiled their own code share nothing that could be at fault: their spread is noise, which
    the interval of the session has in it.
    """
    if not any(boot.modules_loaded for boot in boots):
        return []
    allowed = min(max(LEAST_AGREEMENT, DEVIATIONS * noise_of_boot), MOST_AGREEMENT)
    found = []
    for point in head.points:
        timed = paces(boots, point)
        if not timed:
            unknown = f"{point}: nothing tells how fast all boots of {boots[0].arm} were"
            found.append(f"{unknown}, so a poisoned artifact could not be seen")
            continue
        fastest, slowest = (pick(timed, key=lambda one: one[0]) for pick in (min, max))
        times = slowest[0] / fastest[0]
        if times - 1 > allowed:
            found.append(describe_disagreement(point, fastest[1], slowest[1], times, allowed))
    return found


def describe_disagreement(
    point: str, fast: BootMeasure, slow: BootMeasure, times: float, allowed: float
) -> str:
    """What two boots of one arm show."""
    words = f"{point}: boots {fast.place} and {slow.place} of {fast.arm} differ {times:.2f} times"
    wrote, loads = fast.modules_compiled and not fast.modules_loaded, slow.modules_loaded > 0
    text = {measured.text_sha256 for boot in (fast, slow) if (measured := boot.point(point))}
    if wrote and loads:
        same = "with equal text" if len(text) == 1 else "with other text"
        return (
            f"{words}: full speed where the code was compiled, slower where it was loaded, {same}: "
            "a poisoned artifact in the compile cache"
        )
    return f"{words}, more than {allowed:.1%} allows for one arm"


def paces(boots: Sequence[BootMeasure], point: str) -> list[tuple[float, BootMeasure]]:
    """How long each boot took for a step or a token, by the first metric that all know; empty without one."""
    for metric in PACES:
        values = [number_of(boot, point, metric).value for boot in boots]
        known = [value for value in values if value is not None]
        if len(known) == len(boots):
            times = [1 / value if UNITS[metric] == "tok/s" else value for value in known]
            return list(zip(times, boots, strict=True))
    return []


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


def session_of(head: SessionHead, boots: Sequence[BootMeasure], point: str, metric: str) -> AbSession | str:
    """The boots of one metric as a session; the reason where a value is not known or no positive number."""
    values: list[float] = []
    for boot in boots:
        number, problem = number_of(boot, point, metric), not_positive(boot, point, metric)
        if number.value is None or problem:
            return problem or f"boot {boot.place}: {number.reason}"
        values.append(number.value)
    return AbSession(head.run, head.arms, "".join(boot.letter for boot in boots), tuple(values))


def judge_points(head: SessionHead, boots: Sequence[BootMeasure], judges: Sequence[Judge]) -> list[Judged]:
    """Every judged metric of every prompt, as a single session would be judged now."""
    found = []
    for judge in judges:
        for point in head.points:
            verdict, estimate, reason = Verdict.INVALID, Estimate(0, 0.0), None
            session = session_of(head, boots, point, judge.metric)
            if isinstance(session, AbSession):
                ratios = pair_ratios(session, judge.higher_is_better)
                verdict, estimate = decide_session(ratios, judge.design, judge.noise_of(point), ERROR)
            else:
                reason = session
            found.append(Judged(point, judge.metric, verdict, estimate, judge.design, reason))
    return found


def unread_problems(head: SessionHead, boots: Sequence[BootMeasure], judges: Sequence[Judge]) -> list[str]:
    """Judged metrics of which no session can be made, each with the boot that is to blame."""
    return [
        f"{one.metric} of {one.point} cannot be judged: {one.reason}"
        for one in judge_points(head, boots, judges)
        if one.verdict is Verdict.INVALID
    ]


def enough(
    head: SessionHead, boots: Sequence[BootMeasure], judges: Sequence[Judge], noise_of_boot: float
) -> str | None:
    """Why no further boot is needed: the session is invalid, red is certain, or every prompt is decided.

    Args:
        head: the session.
        boots: in their order.
        judges: of its metrics, the profile's first, all with the session's number of pairs.
        noise_of_boot: as for `session_problems`.
    """
    problems = [*session_problems(head, boots, noise_of_boot), *unread_problems(head, boots, judges)]
    if problems:
        return f"invalid: {problems[0]}"
    judged = judge_points(head, boots, judges)
    if head.arms[0] == head.arms[1]:
        return None  # an arm against itself is run for its noise: ending early would make that look small
    if any(len(boots) not in [2 * pairs for pairs in judge.design.sizes] for judge in judges):
        return None  # between two looks nobody looks
    red = next((one for one in judged if one.verdict is Verdict.REGRESSED), None)
    if red is not None:
        return f"red is certain: {red.metric} of {red.point}"
    decided = all(one.verdict in (Verdict.PASS, Verdict.IMPROVED) for one in judged)
    return "every prompt is decided" if decided else None


def awaits_confirmation(
    head: SessionHead, boots: Sequence[BootMeasure], judges: Sequence[Judge], noise_of_boot: float
) -> bool:
    """Whether a session came out worse in anything that is judged, and so a fresh one has to confirm it."""
    if session_problems(head, boots, noise_of_boot):
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
    earlier: tuple[SessionHead, Sequence[BootMeasure]] | None = None,
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
    sessions: Sequence[tuple[SessionHead, Sequence[BootMeasure]]],
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
