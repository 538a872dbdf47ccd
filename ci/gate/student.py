"""The t and F distributions, as far as the A/B comparison needs them.

The light environment of the gate has no scipy, and installing it for two
functions would cost every lane more than these lines; the tests hold them
against published tables.
"""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300
_TERMS = 1000
_PRECISION = 1e-14
_HALVINGS = 200
"""More than a double has bits: the search ends where neighbours meet."""


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b) for a, b > 0 and 0 <= x <= 1."""
    if x <= 0:
        return 0.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side only
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(front) / a * _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    upper = 1.0
    lower = 1 / (1 - (a + b) * x / (a + 1) or _TINY)
    value = lower
    for term in range(1, _TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        for factor in (even, odd):
            lower = 1 / (1 + factor * lower or _TINY)
            upper = 1 + factor / upper or _TINY
            value *= lower * upper
        if abs(lower * upper - 1) < _PRECISION:
            break
    return value


def t_tail(t: float, df: float) -> float:
    """Return P(T > t) for Student's t with ``df`` degrees of freedom."""
    half = incomplete_beta(df / 2, 0.5, df / (df + t * t)) / 2
    return half if t >= 0 else 1 - half


@lru_cache(maxsize=4096)
def t_quantile(tail: float, df: float) -> float:
    """Return t with P(T > t) = ``tail`` for 0 < tail < 1 and df > 0."""
    if not 0 < tail < 1 or df <= 0:
        raise ValueError(f"no t quantile for tail {tail} and {df} degrees of freedom")
    if tail > 0.5:
        return -t_quantile(1 - tail, df)
    low, high = 0.0, 1.0
    while t_tail(high, df) > tail:
        low, high = high, high * 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if t_tail(middle, df) > tail else (low, middle)
    return high


def f_tail(ratio: float, df_above: float, df_below: float) -> float:
    """Return P(F > ratio) for the ratio, 0 or more, of two variances with these degrees of freedom."""
    return incomplete_beta(df_below / 2, df_above / 2, df_below / (df_below + df_above * ratio))


@lru_cache(maxsize=1024)
def f_quantile(tail: float, df_above: float, df_below: float) -> float:
    """Return the ratio of two variances that is exceeded with probability ``tail``, between 0 and 1."""
    low, high = 0.0, 1.0
    while f_tail(high, df_above, df_below) > tail:
        low, high = high, high * 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if f_tail(middle, df_above, df_below) > tail else (low, middle)
    return high
