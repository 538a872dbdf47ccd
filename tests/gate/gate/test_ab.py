"""Each verdict of the A/B comparison, the interval behind it, and what refuses to be compared."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

from ci.gate.ab import (
    CONFIRM_ERROR,
    ERROR,
    UNLIKE,
    Design,
    Noise,
    Stage,
    decide,
    decide_once,
    decide_session,
    describe,
    estimate_at,
    pair_ratios,
    percent,
    pool,
    spread,
    unlike,
)
from ci.gate.looks import look_tails
from ci.gate.student import f_quantile, t_quantile
from ci.gate.verdict import Verdict
from ci.results.records import AbSession

DESIGN = Design(margin=0.005, max_pairs=8)
QUIET = Noise(squares=24 * 2 * 0.003**2, df=24, sessions=4)
"""Four A/A sessions of eight pairs with 0.3% per boot."""


def session(
    effect: float, pairs: int = 8, noise: float = 0.001, run: str = "r1", drift: float = 0.0
) -> AbSession:
    """Boots at 100 whose arm B is faster by ``effect``, with a fixed zigzag as noise."""
    order = ("ABBA" * pairs)[: 2 * pairs]
    values = [
        100 * math.exp((effect if arm == "B" else 0) + noise * (-1) ** (index // 4 + index) + drift * index)
        for index, arm in enumerate(order)
    ]
    return AbSession(run, ("stock", "patched"), order, tuple(values))


def test_pairs_are_neighbours_and_b_over_a() -> None:
    """A B and B A both give the log of B over A; for times the sign turns."""
    boots = AbSession("r", ("a", "b"), "ABBA", (100.0, 110.0, 121.0, 110.0))
    assert pair_ratios(boots) == pytest.approx([math.log(1.1), math.log(1.1)])
    assert pair_ratios(boots, higher_is_better=False) == pytest.approx([-math.log(1.1)] * 2)


def test_a_boot_without_partner_is_left_out() -> None:
    """Three boots are one pair."""
    assert len(pair_ratios(AbSession("r", ("a", "b"), "ABB", (1.0, 2.0, 3.0)))) == 1


@pytest.mark.parametrize("values", [(4.0, 5e-324, 4.0, 4.0), (1e308, 4.0, 1e-308, 1e308)])
def test_any_positive_numbers_have_a_ratio(values: tuple[float, ...]) -> None:
    """Also where their quotient is no double; what comes of it can be shown."""
    result = decide([AbSession("r", ("a", "b"), "ABBA", values)], DESIGN, QUIET, higher_is_better=False)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert percent(744.0) == percent(7440.0)


def test_spread_is_of_even_and_odd_pairs_apart() -> None:
    """A drift alone leaves no spread; a difference inside one order does."""
    assert spread([0.1, -0.1, 0.1, -0.1]) == (pytest.approx(0, abs=1e-30), 2)
    assert spread([0.1, 0.0, 0.3, 0.0]) == (pytest.approx(0.02), 2)
    assert spread([0.1, 0.3]) == (0, 0)


def test_degrees_of_freedom_add_up() -> None:
    """Pooling sums squares and degrees of freedom; half a block is left out."""
    eight, five = session(0, 8, run="x"), session(0, 5, run="y")
    noise = pool([eight, five])
    assert (noise.df, noise.sessions) == (6 + 2, 2)
    assert noise.squares == pytest.approx(spread(pair_ratios(eight))[0] + spread(pair_ratios(five)[:4])[0])
    assert pool([]) == Noise()


def test_the_interval_is_effect_plus_minus_t_times_error() -> None:
    """The numbers of one look follow from the formula, with both degrees of freedom."""
    ratios = [0.001, 0.003, -0.001, 0.001]
    got = estimate_at(ratios, DESIGN, QUIET, 0.05, 0.02)
    variance = (QUIET.squares + 0.002**2 / 2 + 0.002**2 / 2) / 26
    error = math.sqrt(variance / 4)
    assert got.df == 26
    assert got.effect == pytest.approx(0.001)
    assert got.upper == pytest.approx(0.001 + t_quantile(0.05, 26) * error)
    assert got.lower == pytest.approx(0.001 - t_quantile(0.02, 26) * error)
    assert got.detectable == pytest.approx(
        math.log(0.995) - (t_quantile(0.05, 26) + t_quantile(0.2, 26)) * error
    )


@pytest.mark.parametrize(
    ("effect", "verdict"),
    [
        (0.0, Verdict.PASS),
        (-0.02, Verdict.REGRESSED),
        (0.02, Verdict.IMPROVED),
        (-0.005, Verdict.INCONCLUSIVE),
        (0.005, Verdict.PASS),
    ],
)
def test_the_side_of_the_margin_decides(effect: float, verdict: Verdict) -> None:
    """Clear effects get their verdict, an effect at the loss margin none, one at the gain margin passes."""
    assert decide_session(pair_ratios(session(effect)), DESIGN, QUIET, ERROR)[0] is verdict


def test_early_looks_stop_on_clear_effects_only() -> None:
    """A large loss is seen after one block, a small one needs all of them."""
    assert decide_session(pair_ratios(session(-0.05)), DESIGN, QUIET, ERROR)[1].pairs == 2
    verdict, late = decide_session(pair_ratios(session(-0.009)), DESIGN, QUIET, ERROR)
    assert (verdict, late.pairs) == (Verdict.REGRESSED, 6)


def test_pairs_between_looks_and_beyond_the_limit_do_not_count() -> None:
    """Three pairs are judged as two; a limit of two pairs ignores the rest."""
    assert decide_session(pair_ratios(session(0, 3)), DESIGN, QUIET, ERROR)[1].pairs == 2
    assert decide_session(pair_ratios(session(0, 8)), Design(0.005, 2), QUIET, ERROR)[1].pairs == 2


def test_a_single_pair_decides_nothing() -> None:
    """Before the first look there is an effect and no interval."""
    verdict, estimate = decide_session(pair_ratios(session(-0.5, 1)), DESIGN, QUIET, ERROR)
    assert verdict is Verdict.INCONCLUSIVE
    assert (estimate.pairs, estimate.lower, estimate.detectable) == (1, None, None)
    assert "a loss of any size could have gone unseen" in describe(estimate, DESIGN)


def test_without_any_spread_there_is_no_interval() -> None:
    """One block without A/A sessions, or equal values, cannot show a spread, so nothing is concluded."""
    assert decide_session(pair_ratios(session(-0.5, 2)), DESIGN, Noise(), ERROR)[0] is Verdict.INCONCLUSIVE
    same = pair_ratios(session(-0.5, 8, noise=0.0))
    assert decide_session([round(one, 3) for one in same], DESIGN, Noise(), ERROR)[0] is Verdict.INCONCLUSIVE
    assert decide_session(pair_ratios(session(-0.5, 4)), DESIGN, Noise(), ERROR)[0] is Verdict.REGRESSED


@pytest.mark.parametrize(("noise", "known"), [(0.0, False), (1e-9, True)])
def test_the_rounding_of_doubles_is_no_spread(noise: float, known: bool) -> None:
    """Equal quotients of numbers of any size differ by it alone; whatever differs by more has a spread."""
    levels = (1e9, 1e9, 1e-9, 1e-9) * 2
    pairs = [(level, 1.003 * level * (1 + noise * (place % 3))) for place, level in enumerate(levels)]
    values = [value for place, (a, b) in enumerate(pairs) for value in ((b, a) if place % 2 else (a, b))]
    ratios = pair_ratios(AbSession("r", ("a", "b"), "ABBA" * 4, tuple(values)))
    assert len(set(ratios)) > 1
    assert (estimate_at(ratios, DESIGN, Noise(), 0.05, 0.05).lower is not None) is known


def test_a_drift_that_would_accuse_cancels() -> None:
    """One percent per boot, over whole blocks, moves no verdict."""
    assert decide([session(0.0, drift=0.01)], DESIGN, Noise(), True).verdict is Verdict.PASS


@pytest.mark.parametrize("pairs", [2, 4])
def test_a_session_is_unlike_beyond_the_quantile_of_its_own_pairs(pairs: int) -> None:
    """Its variance over that of the A/A sessions has as many degrees of freedom as pairs, less one."""
    limit = f_quantile(UNLIKE, pairs - 1, QUIET.df) * QUIET.squares / QUIET.df
    for factor, expected in ((0.999, False), (1.001, True)):
        # Half of the pairs above the mean and half below: the variance is pairs / (pairs - 1) of the square.
        reach = math.sqrt(limit * factor * (pairs - 1) / pairs)
        assert unlike([reach, -reach] * (pairs // 2), QUIET) is expected


def test_a_noisy_session_does_not_borrow_quiet_variance() -> None:
    """Ten times the noise of the A/A sessions is not pooled with them, so no early verdict comes of it."""
    rng = random.Random(1)
    noisy = [rng.gauss(-0.02, 0.03) for _ in range(2)]
    noisy = [noisy[0], noisy[0] + 0.06]
    assert unlike(noisy, QUIET)
    assert estimate_at(noisy, DESIGN, QUIET, 0.05, 0.05).lower is None
    assert not unlike([0.001, 0.004], QUIET)
    assert not unlike(noisy, Noise())
    assert unlike([0.001, 0.004], Noise(0.0, 6, 1))


def test_the_first_regressed_waits_for_a_fresh_session() -> None:
    """Alone it is inconclusive; a second session of another run confirms it or not."""
    bad, good = session(-0.02), session(0.0, run="r2")
    held = decide([bad], DESIGN, QUIET, True)
    assert (held.verdict, held.stage) == (Verdict.INCONCLUSIVE, Stage.FIRST)
    assert held.why.startswith("awaiting confirmation")
    confirmed = decide([bad, session(-0.02, run="r2")], DESIGN, QUIET, True)
    assert (confirmed.verdict, confirmed.stage) == (Verdict.REGRESSED, Stage.CONFIRMATION)
    assert len(confirmed.estimates) == 2
    refuted = decide([bad, good], DESIGN, QUIET, True)
    assert (refuted.verdict, refuted.stage) == (Verdict.PASS, Stage.CONFIRMATION)
    assert refuted.why.startswith("not confirmed")


def test_a_second_session_cannot_accuse_what_the_first_cleared() -> None:
    """Searching on after a pass is of no account."""
    result = decide([session(0.0), session(-0.02, run="r2")], DESIGN, QUIET, True)
    assert result.verdict is Verdict.PASS
    assert "of no account" in result.why


def test_what_anothers_red_cut_short_is_judged_by_the_fresh_session() -> None:
    """Only where the first session ended early, at a first one's error; one red session accuses nobody."""
    cut, whole = session(-0.004, pairs=2), session(-0.004)
    for first, second, verdict, words in (
        (cut, 0.0, Verdict.PASS, "the first session ended early"),
        (cut, -0.02, Verdict.INCONCLUSIVE, "worse in one session only"),
        (whole, 0.0, Verdict.INCONCLUSIVE, "of no account"),
    ):
        both = [first, session(second, run="r2")]
        result = decide(both, DESIGN, QUIET, True)
        assert result.verdict is verdict
        assert words in result.why
        stage, counted = (Stage.CONFIRMATION, both) if first is cut else (Stage.FIRST, both[:1])
        alone = [decide_session(pair_ratios(one), DESIGN, QUIET, ERROR)[1] for one in counted]
        assert (result.stage, result.estimates) == (stage, tuple(alone))


@pytest.mark.parametrize("effect", [-0.03, 0.03])
def test_an_arm_is_no_worse_and_no_better_than_itself(effect: float) -> None:
    """What differs there is the machine: nothing to confirm, nothing to accept."""
    one = msgspec.structs.replace(session(effect), arms=("patched", "patched"))
    found = decide([one], DESIGN, QUIET, higher_is_better=True)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.why.startswith("an arm against itself came out different")
    again = msgspec.structs.replace(one, run="r2")
    assert decide([one, again], DESIGN, QUIET, higher_is_better=True).verdict is Verdict.INCONCLUSIVE


def test_the_confirmation_has_its_own_error_rate() -> None:
    """A loss that only the confirming level can see confirms, and would not have accused."""
    sizes = DESIGN.sizes
    near = session(-0.0074, run="r2")
    assert decide_session(pair_ratios(near), DESIGN, QUIET, ERROR)[0] is Verdict.INCONCLUSIVE
    assert decide([session(-0.02), near], DESIGN, QUIET, True).verdict is Verdict.REGRESSED
    assert sum(look_tails(sizes, CONFIRM_ERROR)) > sum(look_tails(sizes, ERROR))


def test_times_are_better_when_smaller() -> None:
    """A B arm with longer times regresses."""
    slow, again = session(0.02), session(0.02, run="r2")
    assert decide([slow, again], DESIGN, QUIET, False).verdict is Verdict.REGRESSED
    assert decide([slow, again], DESIGN, QUIET, True).verdict is Verdict.IMPROVED


BROKEN = {
    "no session": [],
    "three sessions": [session(-0.02, run=run) for run in "abc"],
    "same run": [session(-0.02), session(-0.02)],
    "other arms": [session(-0.02), AbSession("r2", ("stock", "mq3d"), "ABBA", (1.0, 1.0, 1.0, 1.0))],
    "other order": [AbSession("r", ("a", "b"), "ABAB", (1.0, 2.0, 1.0, 2.0))],
    "values missing": [AbSession("r", ("a", "b"), "ABBA", (1.0, 2.0, 1.0))],
    "no boots": [AbSession("r", ("a", "b"), "", ())],
    "zero": [AbSession("r", ("a", "b"), "ABBA", (1.0, 0.0, 1.0, 2.0))],
    "infinite": [AbSession("r", ("a", "b"), "ABBA", (1.0, math.inf, 1.0, 2.0))],
    "no run": [AbSession("", ("a", "b"), "ABBA", (1.0, 2.0, 1.0, 2.0))],
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_compared_is_invalid(name: str) -> None:
    """Sessions that are not what the plan of the comparison says give no verdict on speed."""
    result = decide(BROKEN[name], DESIGN, QUIET, True)
    assert result.verdict is Verdict.INVALID
    assert result.why


def test_words_hold_effect_interval_and_detectable_loss() -> None:
    """Every text carries the three numbers without which a null result is none."""
    why = decide([session(0.0)], DESIGN, QUIET, True).why
    assert why.startswith("+0.00% after 6 of at most 8 pairs, interval [-")
    assert "margin 0.5%" in why
    assert "would have seen a loss of " in why
    assert percent(math.log(0.99)) == "-1.00%"


def test_margins_are_exact_fractions() -> None:
    """A margin of half a percent is a ratio of 0.995 below and 1.005 above."""
    assert math.exp(DESIGN.loss) == pytest.approx(0.995)
    assert math.exp(DESIGN.gain) == pytest.approx(1.005)


@pytest.mark.parametrize(
    ("effect", "reach", "verdict"),
    [
        (DESIGN.loss, 0.0, Verdict.INCONCLUSIVE),
        (DESIGN.loss + 1e-9, 0.0, Verdict.PASS),
        (DESIGN.loss - 1e-9, 0.0, Verdict.REGRESSED),
        (DESIGN.gain, 0.0, Verdict.PASS),
        (DESIGN.gain + 1e-9, 0.0, Verdict.IMPROVED),
        (0.0, 0.006, Verdict.INCONCLUSIVE),
        (-0.02, 0.0149, Verdict.REGRESSED),
    ],
)
def test_an_interval_that_touches_the_margin_decides_nothing(
    effect: float, reach: float, verdict: Verdict
) -> None:
    """Ends count when they lie beyond the margin, not on it."""
    found, estimate = decide_once(effect, 0.001, reach, 3, 4, DESIGN)
    assert found is verdict
    assert (estimate.lower, estimate.upper) == (effect - reach, effect + reach)
    assert (estimate.pairs, estimate.df) == (4, 3)
    assert estimate.detectable == pytest.approx(DESIGN.loss - reach - t_quantile(0.2, 3) * 0.001)


def test_error_rates_keep_the_promise() -> None:
    """Both sessions together accuse a loss of exactly the margin in at most one case of a hundred."""
    assert (ERROR, CONFIRM_ERROR) == (0.05, 0.10)
    assert ERROR * CONFIRM_ERROR <= 0.01


def test_a_loss_at_the_margin_is_not_confirmed() -> None:
    """The confirming level is looser than the first, and still a level."""
    result = decide([session(-0.02), session(-0.0056, run="r2")], DESIGN, QUIET, True)
    assert result.verdict is Verdict.INCONCLUSIVE


def test_noise_is_compared_per_degree_of_freedom() -> None:
    """Four pairs with three times the deviation are as likely as not; with eight times they are not."""
    deviation = math.sqrt(QUIET.squares / QUIET.df)
    shape = (1.0, -1.0, 1.0, -1.0)
    assert unlike([3.0 * deviation * one for one in shape], QUIET)
    assert unlike([2.0 * deviation * one for one in shape], QUIET) is False
    # Beyond 7.554 times the variance, with 3 and 24 degrees of freedom, lies one session of a thousand.
    assert unlike([math.sqrt(7.56 * 3 / 4) * deviation * one for one in shape], QUIET)
    assert unlike([math.sqrt(7.55 * 3 / 4) * deviation * one for one in shape], QUIET) is False
    assert unlike([1.0, 5.0], Noise()) is False


def test_one_pair_has_its_own_effect() -> None:
    """Before the first look the effect is that of the pairs there are; without any it is 0."""
    assert decide_session([0.25], DESIGN, QUIET, ERROR)[1].effect == 0.25
    assert decide_session([], DESIGN, QUIET, ERROR)[1].effect == 0


def test_quiet_a_a_sessions_and_a_quiet_session_agree() -> None:
    """Without any spread on either side nothing is unlike."""
    assert unlike([0.1, 0.1], Noise(0.0, 6, 1)) is False


def test_a_second_session_is_mentioned_only_if_there_is_one() -> None:
    """The words of a first verdict say nothing of a session that was not measured."""
    assert "second session" not in decide([session(0.0)], DESIGN, QUIET, True).why
