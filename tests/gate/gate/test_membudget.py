"""The memory rules, replayed on the published tables and on what can go wrong with two boots."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ci.gate.membudget import (
    Band,
    BudgetStep,
    Finding,
    Row,
    adoption,
    budget_steps,
    difference,
    judge_row,
    mib,
    shown,
    tokens,
    untracked_steps,
)
from ci.gate.verdict import Verdict
from ci.results.boot import BootFacts, Measured

MIB = 1 << 20
GIB = 1 << 30
PRINT = round(GIB / 100)
"""Boot lines print 0.01 GiB."""
RTX3090 = Band(round(-31.5 * MIB), round(51.1 * MIB), "published rows of the RTX 3090")
RTX4090 = Band(round(-0.9 * MIB), round(5.0 * MIB), "published rows of the RTX 4090")
NOT_PUBLISHED = Measured(None, reason="not published")


def gib(printed: str) -> Measured:
    """A size as a boot line prints it."""
    return Measured(round(float(printed) * GIB), PRINT)


def boot(**changes: Any) -> BootFacts:
    """A stock boot of the published RTX 4090 table at 16 sequences, changed."""
    facts = BootFacts(
        name="stock",
        arm="token-units",
        lane="rtx4090",
        environment="wsl2",
        session="s1",
        max_num_seqs=16,
        problem=None,
        lineage="disabled",
        ubatching=False,
        loaded=Measured(0),
        adopted_lines=0,
        late_lines=4,
        expected_adoptions=4,
        model_load=gib("15.93"),
        available_kv=gib("4.76"),
        kv_tokens=Measured(181_139),
        block_tokens=Measured(848),
        free_after_boot=NOT_PUBLISHED,
        resident=NOT_PUBLISHED,
    )
    return msgspec.structs.replace(facts, **changes)


def patched(**changes: Any) -> BootFacts:
    """Its patched partner."""
    usual: dict[str, Any] = {
        "name": "patched",
        "arm": "patched",
        "loaded": Measured(round(225.75 * MIB)),
        "adopted_lines": 4,
        "late_lines": 0,
        "model_load": gib("16.14"),
        "available_kv": gib("4.54"),
        "kv_tokens": Measured(172_998),
    }
    return boot(**(usual | changes))


def verdicts(row: Row) -> dict[str, Verdict | None]:
    """Rule -> verdict."""
    return {finding.rule: finding.verdict for finding in row.findings}


@pytest.mark.parametrize(
    ("seqs", "load", "kv", "tokens", "mib"),
    [
        (4, ("15.92", "15.98"), ("4.85", "4.79"), (184_701, 182_666), 56.4375),
        (16, ("15.93", "16.14"), ("4.76", "4.54"), (181_139, 172_998), 225.75),
        (32, ("15.93", "16.37"), ("4.62", "4.18"), (175_542, 158_751), 451.5),
    ],
)
def test_published_4090_rows_pass(
    seqs: int, load: tuple[str, str], kv: tuple[str, str], tokens: tuple[int, int], mib: float
) -> None:
    """Every published row of the RTX 4090 passes every rule, within that lane's band and the print."""
    stock = boot(
        max_num_seqs=seqs, model_load=gib(load[0]), available_kv=gib(kv[0]), kv_tokens=Measured(tokens[0])
    )
    after = patched(
        max_num_seqs=seqs,
        model_load=gib(load[1]),
        available_kv=gib(kv[1]),
        kv_tokens=Measured(tokens[1]),
        loaded=Measured(round(mib * MIB)),
    )
    row = judge_row([stock, stock], after, RTX4090)
    assert row.verdict is Verdict.PASS, row
    assert set(verdicts(row).values()) == {Verdict.PASS, None}


@pytest.mark.parametrize(
    ("mib", "kv_fall", "load_rise", "verdict"),
    [
        (112.88, 164, 113, Verdict.INCONCLUSIVE),
        (225.75, 266, 225, Verdict.PASS),
        (451.50, 471, 461, Verdict.PASS),
        (451.50, 420, 461, Verdict.PASS),
    ],
)
def test_published_3090_rows(mib: float, kv_fall: int, load_rise: int, verdict: Verdict) -> None:
    """The RTX 3090's rows lie in its wide band; its smallest is under three bands."""
    base = Measured(10 * GIB, PRINT)
    planned = Measured(round(mib * MIB))
    fell = Measured(10 * GIB - kv_fall * MIB, PRINT)
    rose = Measured(10 * GIB + load_rise * MIB, PRINT)
    assert difference("budget", base, fell, planned, RTX3090).verdict is verdict
    assert difference("load", rose, base, planned, RTX3090).verdict is verdict


@pytest.mark.parametrize("lost", ["kv", "load"])
def test_unpaid_scratch_is_red(lost: str) -> None:
    """A patched boot whose budget or model loading did not move has regressed."""
    change = {"available_kv": gib("4.76")} if lost == "kv" else {"model_load": gib("15.93")}
    row = judge_row([boot(), boot()], patched(**change), RTX4090)
    assert row.verdict is Verdict.REGRESSED


def test_exact_bytes_narrow_the_band() -> None:
    """With bytes read from the engine nothing is added for print, so a miss of 8 MiB is red."""
    planned = Measured(64 * MIB)
    exact = difference("budget", Measured(GIB), Measured(GIB - 72 * MIB), planned, RTX4090)
    printed = difference("budget", Measured(GIB, PRINT), Measured(GIB - 72 * MIB, PRINT), planned, RTX4090)
    assert (exact.verdict, printed.verdict) == (Verdict.REGRESSED, Verdict.PASS)


NARROW = Band(-10, 30, "made up: its larger side is 30 bytes")


@pytest.mark.parametrize(
    ("planned", "off", "verdict"),
    [
        (1000, -90, Verdict.PASS),
        (1000, -91, Verdict.REGRESSED),
        (1000, 110, Verdict.PASS),
        (1000, 111, Verdict.REGRESSED),
        (330, 0, Verdict.PASS),
        (329, 0, Verdict.INCONCLUSIVE),
    ],
)
def test_edges_of_the_band(planned: int, off: int, verdict: Verdict) -> None:
    """Half of each printed digit, 50 + 20 + 10 bytes, widens the band at both ends; three sides can tell."""
    larger, smaller = Measured(planned + off, 100), Measured(0, 40)
    assert difference("budget", larger, smaller, Measured(planned, 20), NARROW).verdict is verdict


def test_a_difference_is_said_in_mib() -> None:
    """Found, planned and off, with the sign of what is off, and what is allowed."""
    found = difference("budget", Measured(65 * MIB), Measured(0), Measured(64 * MIB), RTX4090)
    said = "65.00 MiB found, 64.00 MiB planned, +1.00 MiB off; allowed -0.90 MiB to +5.00 MiB"
    assert (found.verdict, found.detail) == (Verdict.PASS, said)
    assert (mib(-1.5 * MIB), mib(MIB // 2, sign=True)) == ("-1.50 MiB", "+0.50 MiB")


@pytest.mark.parametrize(
    ("count_after", "kv_after", "verdict"),
    [
        (900, 883_920, Verdict.PASS),
        (900, 883_919, Verdict.REGRESSED),
        (900, 916_080, Verdict.PASS),
        (900, 916_081, Verdict.REGRESSED),
        (0, -16_080, Verdict.PASS),
    ],
)
def test_edges_of_one_block(count_after: int, kv_after: int, verdict: Verdict) -> None:
    """1000 bytes a token: a block of 16 and half of both printed digits, 50 + 30 bytes, may be off."""
    stock = boot(available_kv=Measured(1_000_000, 100), kv_tokens=Measured(1000), block_tokens=Measured(16))
    after = patched(available_kv=Measured(kv_after, 60), kv_tokens=Measured(count_after))
    assert tokens(stock, after).verdict is verdict


def test_bytes_per_token_need_a_token() -> None:
    """A reference boot without a token says nothing about what one costs."""
    none = tokens(boot(kv_tokens=Measured(0)), patched())
    assert (none.verdict, none.detail) == (Verdict.INVALID, "stock: 0 KV tokens")
    assert tokens(boot(kv_tokens=Measured(1)), patched()).verdict is Verdict.REGRESSED


@pytest.mark.parametrize(("adopted", "late"), [(3, 0), (4, 1), (0, 0), (5, 0)])
def test_adoption(adopted: int, late: int) -> None:
    """Each builder adopts exactly once and nothing is late; anything else is red."""
    assert adoption(patched(adopted_lines=adopted, late_lines=late), 4).verdict is Verdict.REGRESSED
    assert adoption(patched(), 4).verdict is Verdict.PASS


def test_builders_are_counted_by_the_reference_boot() -> None:
    """Where nobody said how many builders there are, the reference boot's own allocations count them."""
    row = judge_row([boot(late_lines=8)] * 2, patched(expected_adoptions=0), RTX4090)
    assert verdicts(row)["all adopted, none after"] is Verdict.REGRESSED
    unknown = judge_row([boot(late_lines=0)] * 2, patched(expected_adoptions=0), RTX4090)
    assert verdicts(unknown)["all adopted, none after"] is Verdict.INVALID


def test_lane_without_band_is_new() -> None:
    """Differences of a lane that has no accepted band are shown as new, never as a pass."""
    row = judge_row([boot(), boot()], patched(), None)
    assert row.verdict is Verdict.NEW
    assert "no band yet" in row.findings[1].detail


def test_tokens_must_follow() -> None:
    """A budget that fell without its tokens, or tokens without the budget, is red beyond one block."""
    row = judge_row([boot(), boot()], patched(kv_tokens=Measured(181_139)), RTX4090)
    assert verdicts(row)["KV tokens follow the budget"] is Verdict.REGRESSED


@pytest.mark.parametrize(
    ("stock", "after", "rule", "words"),
    [
        ([{}, {"kv_tokens": Measured(181_138)}], {}, "stock repeats", "181139, 181138 KV tokens"),
        ([{}], {}, "stock repeats", "1 stock boot"),
        ([{}, {}], {"environment": "container"}, "same environment", "container, wsl2"),
        ([{}, {}], {"session": "s2"}, "same session", "s1, s2"),
        ([{}, {}], {"lane": "rtx3090"}, "same lane", "rtx3090, rtx4090"),
        ([{}, {}], {"max_num_seqs": 8}, "same max_num_seqs", "16, 8"),
        ([{}, {"lineage": "warm", "name": "second"}], {}, "lineage", "second is warm, stock is cold"),
        ([{}, {}], {"lineage": "unknown"}, "lineage", "patched: its log proves neither"),
        ([{}, {}], {"lineage": "cold"}, "lineage", "mixed: "),
        ([{}, {}], {"problem": "failed: out of memory"}, "boot", "patched: failed: out of memory"),
        ([{}, {}], {"ubatching": True}, "exclusive under ubatching", "every builder adopted"),
        ([{}, {"kv_tokens": Measured(None, reason="x.log: no line")}], {}, "stock repeats", "x.log: no line"),
    ],
)
def test_boots_that_cannot_be_compared(
    stock: list[dict[str, Any]], after: dict[str, Any], rule: str, words: str
) -> None:
    """Such a row is invalid, names what differs, and shows no difference as if it were one."""
    row = judge_row([boot(**one) for one in stock], patched(**after), RTX4090)
    assert row.verdict is Verdict.INVALID
    assert {finding.verdict for finding in row.findings} == {Verdict.INVALID}
    assert any(finding.rule == rule and words in finding.detail for finding in row.findings), row


def test_published_warm_boot_is_named() -> None:
    """The warm stock boot of the first series, 5.77 GiB against 4.86 cold, is invalid and named."""
    cold = boot(name="cold", available_kv=gib("4.86"), lineage="cold")
    warm = boot(name="warm", available_kv=gib("5.77"), lineage="warm")
    row = judge_row([cold, warm], patched(lineage="cold"), RTX4090)
    assert (
        Finding("lineage", Verdict.INVALID, "warm is warm, cold is cold: the profile saw other work")
        in row.findings
    )


@pytest.mark.parametrize("name", ["available_kv", "model_load", "kv_tokens", "loaded"])
def test_unread_number_is_invalid(name: str) -> None:
    """A number that was not read makes its rule invalid with the reason; it is never zero."""
    row = judge_row([boot(), boot()], patched(**{name: Measured(None, reason="p.log: no line")}), RTX4090)
    assert row.verdict is Verdict.INVALID
    assert any("p.log: no line" in finding.detail for finding in row.findings)


def test_resident_and_free_are_shown_only() -> None:
    """However far they move, no verdict comes from them."""
    row = judge_row(
        [boot(free_after_boot=Measured(GIB), resident=Measured(GIB))] * 2,
        patched(free_after_boot=Measured(9 * GIB), resident=Measured(9 * GIB)),
        RTX4090,
    )
    assert verdicts(row)["free memory after boot"] is None
    assert verdicts(row)["resident memory"] is None
    assert row.verdict is Verdict.PASS


def test_what_is_shown_is_of_the_first_reference_boot() -> None:
    """The second one shows that the machine repeats; differences are taken from the first."""
    stock = [boot(resident=Measured(GIB)), boot(resident=Measured(3 * GIB))]
    row = judge_row(stock, patched(resident=Measured(2 * GIB)), RTX4090)
    assert row.findings[-1] == Finding("resident memory", None, "+1024.00 MiB")


@pytest.mark.parametrize("pair", [(NOT_PUBLISHED, Measured(1)), (Measured(1), NOT_PUBLISHED)])
def test_a_shown_number_that_was_not_read_says_why(pair: tuple[Measured, Measured]) -> None:
    """It is no difference to zero, whichever of the two is missing."""
    assert shown("resident memory", *pair) == Finding("resident memory", None, "not read: not published")


def test_row_without_findings_is_invalid() -> None:
    """Nothing judged is never green."""
    assert Row(4, ()).verdict is Verdict.INVALID


def test_signature() -> None:
    """Steps whose scratch the budget did not pay for are found; paying more is no fault."""
    rows = [(32, 300, 500), (8, 100, 900), (16, 200, 890)]
    steps = budget_steps(rows)
    assert steps == [BudgetStep(8, 16, 100, 10), BudgetStep(16, 32, 100, 390)]
    assert untracked_steps(steps, band_bytes=89) == steps[:1]
    assert untracked_steps(steps, band_bytes=90) == []
