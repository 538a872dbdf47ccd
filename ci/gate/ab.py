"""A/B comparison of speed: paired boots, the lane's noise, fixed looks, a confirmation.  Pure.

The boot is the sample: one number per boot and metric, boots in the order
A B B A.  The statistic is the mean of the paired log ratios, signed so that
plus is better; the verdict asks on which side of the margin its interval lies.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from ci.gate.looks import PAIRS_PER_BLOCK, look_sizes, look_tails
from ci.gate.student import f_quantile, t_quantile
from ci.gate.verdict import Verdict
from ci.results.aa import session_problem
from ci.results.records import AbSession

ERROR = 0.05
"""Of each one-sided claim of a session, over all of its looks: a 95% interval on each side."""
CONFIRM_ERROR = 0.10
"""Of ``regressed`` in a confirming session. Both sessions together accuse a patch whose loss equals the
margin in at most 0.05 x 0.10 = 0.5% of cases; with 0.05 twice, a real loss would too often go unconfirmed."""
DETECTION_POWER = 0.80
"""How often the smallest detectable effect would be detected."""
AWAITING = "awaiting confirmation by a fresh session"
_NO_SPREAD = 1e-20
"""Sums of squares below it are the rounding of doubles."""
_MOST = 700.0
"""Larger log ratios are shown as this one: their exponential is no double."""
UNLIKE = 0.001
"""A session this unlikely to be as quiet as the A/A sessions does not borrow their variance."""


class Stage(enum.Enum):
    """Which session decided."""

    FIRST = "first session"
    CONFIRMATION = "confirmation"


@dataclass(frozen=True)
class Noise:
    """Sum of squares of paired log ratios within A/A sessions, and its degrees of freedom."""

    squares: float = 0.0
    df: int = 0
    sessions: int = 0


@dataclass(frozen=True)
class Design:
    """What is fixed before the run: log ratios of the margin on either side, and the looks in pairs."""

    margin: float
    """Fraction, as the policy gives it."""
    max_pairs: int

    @property
    def loss(self) -> float:
        """Return the log ratio of a loss of exactly the margin; below it is ``regressed``."""
        return math.log1p(-self.margin)

    @property
    def gain(self) -> float:
        """Return the log ratio of a gain of exactly the margin; above it is ``improved``."""
        return math.log1p(self.margin)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the numbers of pairs after which the session is looked at."""
        return look_sizes(self.max_pairs)


@dataclass(frozen=True)
class Estimate:
    """What one session says at one look; all effects are log ratios, plus is better."""

    pairs: int
    effect: float
    lower: float | None = None
    upper: float | None = None
    detectable: float | None = None
    """The smallest loss that would have been ``regressed`` with `DETECTION_POWER`, a negative number."""
    df: int = 0


@dataclass(frozen=True)
class AbResult:
    """The verdict over one or two sessions, with the numbers of the one that decided."""

    verdict: Verdict
    stage: Stage
    why: str
    estimates: tuple[Estimate, ...]
    """One per session."""
    margin: float

    @property
    def awaiting(self) -> bool:
        """Whether it came out worse, and a fresh session has to confirm that."""
        return self.why.startswith(AWAITING)


def decide(sessions: Sequence[AbSession], design: Design, noise: Noise, higher_is_better: bool) -> AbResult:
    """Return the verdict on an A/B metric.

    Args:
        sessions: the session, and after a first ``regressed`` a fresh one that confirms it or not.
        design: margin and limit of pairs.
        noise: the lane's A/A sessions, pooled.
        higher_is_better: False for times.
    """
    problem = _sessions_problem(sessions)
    if problem is not None:
        return AbResult(Verdict.INVALID, Stage.FIRST, problem, (), design.margin)
    first, one = decide_session(pair_ratios(sessions[0], higher_is_better), design, noise, ERROR)
    if said_of(sessions[0].arms, first) is not first:
        why = (
            f"an arm against itself came out different, which is the machine's doing: {describe(one, design)}"
        )
        return AbResult(Verdict.INCONCLUSIVE, Stage.FIRST, why, (one,), design.margin)
    if first is Verdict.INCONCLUSIVE and len(sessions) > 1 and one.pairs < design.max_pairs:
        # What ended it early was another case's red. The fresh session is this case's first whole look.
        second, two = decide_session(pair_ratios(sessions[1], higher_is_better), design, noise, ERROR)
        why = f"the first session ended early: {describe(one, design)}; then {describe(two, design)}"
        if second is Verdict.REGRESSED:
            second, why = Verdict.INCONCLUSIVE, f"worse in one session only: {why}"
        return AbResult(second, Stage.CONFIRMATION, why, (one, two), design.margin)
    if first is not Verdict.REGRESSED:
        extra = "; a second session is of no account" if len(sessions) > 1 else ""
        return AbResult(first, Stage.FIRST, describe(one, design) + extra, (one,), design.margin)
    if len(sessions) == 1:
        why = f"{AWAITING}: {describe(one, design)}"
        return AbResult(Verdict.INCONCLUSIVE, Stage.FIRST, why, (one,), design.margin)
    second, two = decide_session(pair_ratios(sessions[1], higher_is_better), design, noise, CONFIRM_ERROR)
    word = "confirmed" if second is Verdict.REGRESSED else "not confirmed"
    why = f"{word}: first {describe(one, design)}; then {describe(two, design)}"
    return AbResult(second, Stage.CONFIRMATION, why, (one, two), design.margin)


def said_of(arms: tuple[str, str], verdict: Verdict) -> Verdict:
    """Return what a session's verdict says of its arms: one is neither worse nor better than itself."""
    different = verdict in (Verdict.REGRESSED, Verdict.IMPROVED)
    return Verdict.INCONCLUSIVE if different and arms[0] == arms[1] else verdict


def _sessions_problem(sessions: Sequence[AbSession]) -> str | None:
    if not sessions:
        return "an A/B comparison needs paired boots, and this record has none"
    if len(sessions) > 2:
        return f"{len(sessions)} sessions: one may be confirmed once, more would be a search for a verdict"
    if len({one.run for one in sessions}) < len(sessions):
        return "the confirming session is of the same run, so it confirms nothing"
    if len({one.arms for one in sessions}) > 1:
        return "the two sessions compare different arms"
    return next((problem for problem in map(session_problem, sessions) if problem is not None), None)


def pair_ratios(session: AbSession, higher_is_better: bool = True) -> tuple[float, ...]:
    """Return the log ratio of B to A of each pair of neighbouring boots; plus is better."""
    ratios = []
    for index in range(0, len(session.values) - 1, 2):
        first, second = session.values[index : index + 2]
        ratio = math.log(second) - math.log(first)  # of the quotient: it may be too large or too small
        ratios.append(ratio if (session.order[index] == "A") == higher_is_better else -ratio)
    return tuple(ratios)


def spread(ratios: Sequence[float]) -> tuple[float, int]:
    """Return the sum of squares of whole A B B A blocks and its degrees of freedom.

    The pairs of a block run in opposite order, so a drift shows as a difference
    between even and odd pairs. Taking the mean of each apart keeps the drift
    out of the noise, at the price of one degree of freedom.
    """
    squares = 0.0
    for half in (ratios[::2], ratios[1::2]):
        mean = fmean(half)
        squares += sum((ratio - mean) ** 2 for ratio in half)
    return squares, len(ratios) - 2


def pool(sessions: Iterable[AbSession]) -> Noise:
    """Pool usable A/A sessions; a session shorter than two blocks has no degree of freedom."""
    squares, df, count = 0.0, 0, 0
    for session in sessions:
        ratios = pair_ratios(session)
        ratios = ratios[: len(ratios) // PAIRS_PER_BLOCK * PAIRS_PER_BLOCK]
        if ratios:
            own, own_df = spread(ratios)
            squares, df, count = squares + own, df + own_df, count + 1
    return Noise(squares, df, count)


def decide_session(
    ratios: Sequence[float], design: Design, noise: Noise, error: float
) -> tuple[Verdict, Estimate]:
    """Return the verdict of one session at the first look that decides, else at its last look.

    Pairs beyond the limit of the design are not looked at.
    """
    sizes = design.sizes
    worse, better = look_tails(sizes, error), look_tails(sizes, ERROR)
    verdict, estimate = Verdict.INCONCLUSIVE, Estimate(len(ratios), fmean(ratios) if ratios else 0.0)
    for size, tail_worse, tail_better in zip(sizes, worse, better, strict=True):
        if size > len(ratios):
            break
        estimate = estimate_at(ratios[:size], design, noise, tail_worse, tail_better)
        verdict = _side(estimate, design)
        if verdict is not Verdict.INCONCLUSIVE:
            break
    return verdict, estimate


def estimate_at(
    ratios: Sequence[float], design: Design, noise: Noise, tail_worse: float, tail_better: float
) -> Estimate:
    """Return effect and interval of whole blocks; no interval where no spread could be measured."""
    squares, df = spread(ratios)
    if not unlike(ratios, noise):
        squares, df = squares + noise.squares, df + noise.df
    effect = fmean(ratios)
    if squares < _NO_SPREAD:  # one pair of each order, or a clock too coarse: not the absence of noise
        return Estimate(len(ratios), effect)
    error = math.sqrt(squares / df / len(ratios))
    reach = t_quantile(tail_worse, df) * error
    seen = design.loss - reach - t_quantile(1 - DETECTION_POWER, df) * error
    return Estimate(
        len(ratios), effect, effect - t_quantile(tail_better, df) * error, effect + reach, seen, df
    )


def decide_once(
    effect: float, error: float, reach: float, df: int, pairs: int, design: Design
) -> tuple[Verdict, Estimate]:
    """Return the verdict on an effect whose standard error and interval half-width are known already."""
    seen = design.loss - reach - t_quantile(1 - DETECTION_POWER, df) * error
    estimate = Estimate(pairs, effect, effect - reach, effect + reach, seen, df)
    return _side(estimate, design), estimate


def unlike(ratios: Sequence[float], noise: Noise) -> bool:
    """Tell whether a session is too noisy to come from the same machine state as the A/A sessions.

    Drift counts as noise here, so that one block already has a degree of freedom.
    """
    if noise.df <= 0:
        return False
    mean = fmean(ratios)
    own = sum((ratio - mean) ** 2 for ratio in ratios) / (len(ratios) - 1)
    if noise.squares <= 0:
        return own > 0
    return own / (noise.squares / noise.df) > f_quantile(UNLIKE, len(ratios) - 1, noise.df)


def _side(estimate: Estimate, design: Design) -> Verdict:
    """Return on which side of the margin the interval lies."""
    if estimate.lower is None or estimate.upper is None:
        return Verdict.INCONCLUSIVE
    if estimate.upper < design.loss:
        return Verdict.REGRESSED
    if estimate.lower > design.gain:
        return Verdict.IMPROVED
    return Verdict.PASS if estimate.lower > design.loss else Verdict.INCONCLUSIVE


def percent(log_ratio: float) -> str:
    """Return a log ratio as a signed change in percent."""
    return f"{math.expm1(min(log_ratio, _MOST)) * 100:+.2f}%"


def describe(estimate: Estimate, design: Design) -> str:
    """Return effect, interval and smallest detectable loss in words; none of them is ever left out."""
    head = f"{percent(estimate.effect)} after {estimate.pairs} of at most {design.max_pairs} pairs"
    margin = f"margin {design.margin * 100:.10g}%"
    if estimate.lower is None or estimate.upper is None or estimate.detectable is None:
        return f"{head}, {margin}; no interval, so a loss of any size could have gone unseen"
    interval = f"[{percent(estimate.lower)}, {percent(estimate.upper)}]"
    return (
        f"{head}, interval {interval}, {margin}; would have seen a loss of {percent(estimate.detectable)[1:]}"
        f" in {DETECTION_POWER:.0%} of cases"
    )
