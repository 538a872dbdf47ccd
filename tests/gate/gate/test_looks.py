"""Looking several times must not find more than looking once."""

from __future__ import annotations

from statistics import NormalDist

import pytest

from ci.gate.looks import look_sizes, look_tails


@pytest.mark.parametrize(
    ("pairs", "sizes"),
    [
        (2, (2,)),
        (4, (2, 4)),
        (6, (2, 4, 6)),
        (8, (2, 4, 6, 8)),
        (12, (4, 6, 10, 12)),
        (100, (26, 50, 76, 100)),
    ],
)
def test_sizes(pairs: int, sizes: tuple[int, ...]) -> None:
    """At most four looks, each after whole A B B A blocks, the last at the limit."""
    assert look_sizes(pairs) == sizes


@pytest.mark.parametrize("pairs", [0, 1, 3, 7, -2])
def test_halves_of_blocks_are_refused(pairs: int) -> None:
    """An odd number of pairs cannot cancel a drift."""
    with pytest.raises(ValueError, match="no whole number"):
        look_sizes(pairs)


def test_one_look_spends_all() -> None:
    """With a single look the tail is the error itself."""
    assert look_tails((2,), 0.05) == (pytest.approx(0.05, abs=1e-9),)


def test_two_looks_against_the_bivariate_normal() -> None:
    """The second bound solves P(no crossing first, crossing second) for the rest of the error."""
    first, second = look_tails((4, 8), 0.05)
    assert first == pytest.approx(0.05 * 0.25, abs=1e-9)
    normal, steps = NormalDist(), 4000
    c1, c2 = normal.inv_cdf(1 - first), normal.inv_cdf(1 - second)
    width = (c1 + 8) / steps
    crossing = 0.0
    for step in range(steps):  # midpoint rule over the first look's z
        z = -8 + (step + 0.5) * width
        crossing += width * normal.pdf(z) * (1 - normal.cdf((c2 - z * 0.5**0.5) / 0.5**0.5))
    assert crossing == pytest.approx(0.05 * 0.75, abs=1e-5)


def test_four_looks_against_the_published_family() -> None:
    """For a t^2 spending and four equal looks at 5% the bounds are 2.73, 2.30, 2.01, 1.77 (simulated)."""
    bounds = [NormalDist().inv_cdf(1 - tail) for tail in look_tails((2, 4, 6, 8), 0.05)]
    assert bounds == pytest.approx([2.7344, 2.3019, 2.0102, 1.7692], abs=5e-4)
