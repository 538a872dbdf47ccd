"""The two distributions against printed tables."""

from __future__ import annotations

import pytest

from ci.gate.student import f_quantile, f_tail, incomplete_beta, t_quantile, t_tail

T_TABLE = [
    (0.05, 1, 6.3138),
    (0.05, 2, 2.9200),
    (0.05, 10, 1.8125),
    (0.05, 30, 1.6973),
    (0.05, 120, 1.6577),
    (0.025, 5, 2.5706),
    (0.025, 10, 2.2281),
    (0.01, 4, 3.7469),
    (0.0005, 5, 6.8688),
    (0.20, 24, 0.8569),
]
"""One-sided tail, degrees of freedom, t: from the usual printed table of Student's distribution."""


@pytest.mark.parametrize(("tail", "df", "t"), T_TABLE)
def test_t_quantile(tail: float, df: int, t: float) -> None:
    """Quantiles agree with the table in every printed place, and the tail is their inverse."""
    assert t_quantile(tail, df) == pytest.approx(t, abs=6e-5)
    assert t_tail(t_quantile(tail, df), df) == pytest.approx(tail, rel=1e-9)
    assert t_quantile(1 - tail, df) == pytest.approx(-t, abs=6e-5)


@pytest.mark.parametrize(("tail", "df"), [(0.0, 3), (1.0, 3), (-0.1, 3), (0.05, 0), (0.05, -1)])
def test_impossible_quantiles_are_refused(tail: float, df: float) -> None:
    """There is no quantile without a tail or without a degree of freedom."""
    with pytest.raises(ValueError, match=f"no t quantile for tail {tail} and {df} degrees"):
        t_quantile(tail, df)


def test_the_median_is_zero() -> None:
    """Half of the mass lies above zero, and the sign of t turns the tail around."""
    assert t_quantile(0.5, 7) == pytest.approx(0, abs=1e-12)
    assert t_tail(0, 7) == 0.5
    assert t_tail(-2.0, 7) == pytest.approx(1 - t_tail(2.0, 7))


@pytest.mark.parametrize(
    ("ratio", "above", "below", "tail"),
    [
        (1.0, 10, 10, 0.5),
        (1 / 4.1028, 10, 2, 0.95),
        (161.45, 1, 1, 0.05),
        (4.1028, 2, 10, 0.05),
        (2.9782, 10, 10, 0.05),
        (4.8491, 10, 10, 0.01),
    ],
)
def test_f_tail(ratio: float, above: int, below: int, tail: float) -> None:
    """Tails of the variance ratio agree with the printed table."""
    assert f_tail(ratio, above, below) == pytest.approx(tail, rel=1e-3)


def test_edges() -> None:
    """Nothing lies below 0, everything below 1; a ratio of zero is always exceeded."""
    assert incomplete_beta(2, 3, 0.0) == 0
    assert incomplete_beta(2, 3, 1.0) == 1
    assert incomplete_beta(2, 3, 0.3) == pytest.approx(0.3483)  # 1 - 0.7^4 - 4 * 0.3 * 0.7^3
    assert f_tail(0.0, 3, 3) == 1


@pytest.mark.parametrize(
    ("tail", "above", "below", "ratio"),
    [(0.05, 2, 10, 4.1028), (0.95, 10, 2, 1 / 4.1028), (0.01, 10, 10, 4.8491), (0.05, 1, 1, 161.45)],
)
def test_f_quantile(tail: float, above: int, below: int, ratio: float) -> None:
    """Quantiles of the variance ratio agree with the printed table, and the tail is their inverse."""
    assert f_quantile(tail, above, below) == pytest.approx(ratio, rel=2e-5)
    assert f_tail(f_quantile(tail, above, below), above, below) == pytest.approx(tail, rel=1e-9)
