"""One value against one baseline, by each kind of rule."""

from __future__ import annotations

import pytest

from ci.gate.rows import Band
from ci.gate.values import band, judge
from ci.gate.verdict import Verdict
from ci.results.records import Scalar
from tests.gate.samples import policy

P, R, V, I = Verdict.PASS, Verdict.REGRESSED, Verdict.INVALID, Verdict.IMPROVED  # noqa: E741


def _judge(rule: str, accepted: Scalar, got: Scalar, printed: str | None = None) -> Verdict:
    text = f'schema = 1\n[[rule]]\nmatch = "*/*/*"\norigin = "o"\n{rule}'
    verdict, why = judge(policy(text).rules[0], accepted, got, printed)
    assert (verdict is P) == (why == "")
    return verdict


@pytest.mark.parametrize(
    ("accepted", "got", "expected"),
    [
        (0, 0, P),
        (0, 1, R),
        (2**60, 2**60 + 1, R),
        (0.1, 0.1, P),
        (0.1, 0.10000000000000002, R),
        (0.0, -0.0, P),
        ("a", "a", P),
        ("a", "b", R),
        (True, True, P),
        (True, False, R),
        (True, 1, V),
        (0, False, V),
        (1, 1.0, V),
        ("1", 1, V),
        (None, 1, V),
    ],
)
def test_exact(accepted: Scalar, got: Scalar, expected: Verdict) -> None:
    """Exact means the same value of the same type."""
    assert _judge('kind = "exact"', accepted, got) is expected


@pytest.mark.parametrize(
    ("printed", "accepted", "got", "expected"),
    [
        ("225.76", 225.76, 225.75, R),
        ("225.76", 225.76, 225.755, P),
        ("225.76", 225.76, 225.765, P),
        ("225.76", 225.76, 225.766, R),
        ("0.18", 0.18, 0.1834, P),
        ("2.6", 2.6, 2.65, P),
        ("2.60", 2.6, 2.65, R),
        ("226", 226, 225.76, P),
        ("1.5e3", 1500.0, 1549.0, P),
        ("1.5e3", 1500.0, 1551.0, R),
        ("225.77", 225.76, 225.76, V),
        ("2.6x", 2.6, 2.6, V),
        ("1", True, True, V),
    ],
)
def test_printed_digits_allow_their_rounding(
    printed: str, accepted: Scalar, got: Scalar, expected: Verdict
) -> None:
    """A published value allows half a unit of its last place, and no more."""
    assert _judge('kind = "exact"', accepted, got, printed) is expected


@pytest.mark.parametrize(
    ("rule", "accepted", "got", "expected"),
    [
        ("at-most", 10, 10, P),
        ("at-most", 10, 9.5, P),
        ("at-most", 10, 10.01, R),
        ("at-least", 10, 10, P),
        ("at-least", 10, 11, P),
        ("at-least", 10, 9, R),
        ("at-most", 10, True, V),
        ("at-most", "10", "10", V),
        ("at-least", None, 3, V),
    ],
)
def test_bounds(rule: str, accepted: Scalar, got: Scalar, expected: Verdict) -> None:
    """A bound without a limit of its own is the accepted value."""
    assert _judge(f'kind = "{rule}"', accepted, got) is expected


def test_bounds_with_a_limit() -> None:
    """A limit in the policy replaces the accepted value as the bound."""
    assert _judge('kind = "at-most"\nlimit = 5', 10, 6) is R
    assert _judge('kind = "at-most"\nlimit = 5', 3, 5) is P
    assert _judge('kind = "at-least"\nlimit = 5', 3, 4.9) is R


def test_bounds_allow_printed_rounding() -> None:
    """A published bound is as wide as its last digit."""
    assert _judge('kind = "at-most"', 10.5, 10.55, "10.5") is P
    assert _judge('kind = "at-most"', 10.5, 10.56, "10.5") is R
    assert _judge('kind = "at-least"', 10.5, 10.45, "10.5") is P
    assert _judge('kind = "at-least"', 10.5, 10.44, "10.5") is R


@pytest.mark.parametrize(
    ("direction", "got", "expected"),
    [
        ("lower-is-better", 102.0, P),
        ("lower-is-better", 102.1, R),
        ("lower-is-better", 98.0, P),
        ("lower-is-better", 97.9, I),
        ("higher-is-better", 97.9, R),
        ("higher-is-better", 102.1, I),
        ("neither", 97.9, R),
        ("neither", 102.1, R),
    ],
)
def test_relative(direction: str, got: float, expected: Verdict) -> None:
    """Inside the margin passes, its edge included; beyond it the direction decides."""
    assert _judge(f'kind = "relative"\nmargin = 0.02\ndirection = "{direction}"', 100.0, got) is expected


def test_relative_to_zero_and_below() -> None:
    """A margin around zero has no width, and a negative baseline has a positive one."""
    rule = 'kind = "relative"\nmargin = 0.5\ndirection = "lower-is-better"'
    assert _judge(rule, 0, 0) is P
    assert _judge(rule, 0, 1) is R
    assert _judge(rule, 0, -1) is I
    assert _judge(rule, -100, -60) is P
    assert _judge(rule, -100, -40) is R


def test_ab_without_boots_is_inconclusive() -> None:
    """A single number cannot decide an A/B comparison, not even an equal one."""
    rule = 'kind = "ab"\nmargin = 0.01\ndirection = "higher-is-better"\npairs = 4'
    assert _judge(rule, 100.0, 100.0) is Verdict.INCONCLUSIVE


def test_info_is_never_judged() -> None:
    """An informative metric passes whatever it says."""
    assert _judge('kind = "info"', 1, "x") is P


def test_relative_margin_is_widened_by_the_printed_rounding() -> None:
    """Half a unit of the last printed place is allowed on top of the margin."""
    rule = 'kind = "relative"\nmargin = 0.02\ndirection = "lower-is-better"'
    assert _judge(rule, 100.0, 102.05, "100.0") is P
    assert _judge(rule, 100.0, 102.06, "100.0") is R


def test_changed_type_is_named() -> None:
    """The reason names both types, null included."""
    rule = policy('schema = 1\n[[rule]]\nmatch = "*/*/*"\norigin = "o"\nkind = "exact"').rules[0]
    assert judge(rule, None, 1)[1] == "the type changed: null was accepted, int was measured"


@pytest.mark.parametrize(
    ("rule", "accepted", "printed", "expected"),
    [
        ('kind = "exact"', 10, None, Band(10.0, 10.0)),
        ('kind = "exact"', 225.76, "225.76", Band(225.755, 225.765)),
        ('kind = "at-most"', 10, None, Band(None, 10.0)),
        ('kind = "at-most"\nlimit = 12', 10, None, Band(None, 12.0)),
        ('kind = "at-most"', 10.0, "10", Band(None, 10.5)),
        ('kind = "at-least"', 10.0, "10", Band(9.5, None)),
        ('kind = "relative"\nmargin = 0.1\ndirection = "neither"', -10, None, Band(-11.0, -9.0)),
        ('kind = "relative"\nmargin = 0.1\ndirection = "lower-is-better"', 10, None, Band(None, 11.0)),
        ('kind = "relative"\nmargin = 0.1\ndirection = "higher-is-better"', 10, None, Band(9.0, None)),
        ('kind = "relative"\nmargin = 0.1\ndirection = "neither"', 10.0, "10.0", Band(8.95, 11.05)),
        ('kind = "at-least"\nlimit = 7', 10.0, "10", Band(7.0, None)),
        ('kind = "info"', 10, None, None),
        ('kind = "ab"\nmargin = 0.1\npairs = 4\ndirection = "lower-is-better"', 10, None, None),
        ('kind = "exact"', True, None, None),
        ('kind = "exact"', "10", None, None),
        ('kind = "exact"', 10, "11", None),
    ],
)
def test_band(rule: str, accepted: Scalar, printed: str | None, expected: Band | None) -> None:
    """The band holds the values that pass; an improvement is outside of no bound."""
    parsed = policy(f'schema = 1\n[[rule]]\nmatch = "*/*/*"\norigin = "o"\n{rule}').rules[0]
    found = band(parsed, accepted, printed)
    if expected is None or found is None:
        assert found is expected
    else:
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(("got", "verdict"), [("225.76", V), (True, V), (225.76, P)])
def test_printed_digits_are_of_a_number(got: Scalar, verdict: Verdict) -> None:
    """A text or a truth value is no transcribed number, whatever it looks like."""
    assert _judge('kind = "exact"', 225.76, got, "225.76") is verdict
    assert _judge('kind = "exact"', 1, True, "1") is V
