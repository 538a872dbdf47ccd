"""The arithmetic of docs/printed-digits.md, and that the comparison treats such places as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.gate.values import judge
from ci.gate.verdict import Verdict
from tests.gate.samples import policy

PAGE = (Path(__file__).parents[2] / "docs" / "printed-digits.md").read_text(encoding="utf-8")
MIB = 1024 * 1024
ROW_BYTES = 396_288 + 528_384
SETS = 2


@pytest.mark.parametrize(
    ("shown", "value", "places"),
    [
        ("28.21875", 16 * ROW_BYTES * SETS / MIB, 5),
        ("225.75", 128 * ROW_BYTES * SETS / MIB, 2),
        ("236,716,032", 128 * ROW_BYTES * SETS, 0),
        ("0.19%", (110.88 / 110.67 - 1) * 100, 2),
        ("+0.180% to +0.199%", (110.875 / 110.675 - 1) * 100, 2),
        ("0.127%", (110.77 / 110.63 - 1) * 100, 3),
        ("1.85", 148 / 80, 2),
        ("-31.50", 420 - 451.50, 2),
        ("+51.12", 164 - 112.88, 2),
        ("204.8 to 225.28", (16.145 - 15.925) * 1024, 2),
        ("54.7", 28.2e3 * 2035 / MIB, 1),
        ("218.9", 28.2e3 * 8141 / MIB, 1),
        ("451.6", 28.2e3 * 16791 / MIB, 1),
        ("0.22%", 0.1 / 44.6 * 100, 2),
        ("903.00", 4 * 225.75, 2),
    ],
)
def test_arithmetic(shown: str, value: float, places: int) -> None:
    """Each number of the page is what its expression gives."""
    assert shown in PAGE
    digits = f"{abs(value):,.{places}f}"
    assert digits in shown or f"{float(digits.replace(',', '')):g}" in shown


@pytest.mark.parametrize(
    ("printed", "exact", "verdict"),
    [
        ("28.22", 28.21875, Verdict.PASS),
        ("225.76", 225.75, Verdict.REGRESSED),
        ("0.18", 0.19, Verdict.REGRESSED),
        ("2.6", 148 / 80, Verdict.REGRESSED),
        ("903.00", 903.0, Verdict.PASS),
    ],
)
def test_half_a_unit_is_allowed_and_no_more(printed: str, exact: float, verdict: Verdict) -> None:
    """What rounds to the printed digits passes; a number beside them does not, however it came about."""
    rule = policy('schema = 1\n[[rule]]\nmatch = "*/*/*"\norigin = "o"\nkind = "exact"').rules[0]
    assert judge(rule, float(printed), exact, printed)[0] is verdict
