"""What two boots of one session say about the memory budget: pure rules over bytes.

The figures come from boot reports or from published tables; nothing here reads a file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ci.gate.verdict import Verdict
from ci.results.boot import BootFacts, Measured

MIB = 1 << 20
BANDS_TO_TELL = 3
"""Planned bytes under this many bands could be absent without a rule noticing."""
COLD = ("cold", "disabled")
"""Lineages that profile the same way at every boot."""


@dataclass(frozen=True)
class Band:
    """By how much a difference may miss the planned bytes: the lane's own, from accepted boots."""

    low_bytes: int
    high_bytes: int
    origin: str

    @property
    def width_bytes(self) -> int:
        """The larger of its two sides."""
        return max(abs(self.low_bytes), abs(self.high_bytes))


@dataclass(frozen=True)
class Finding:
    """What one rule says about one row."""

    rule: str
    verdict: Verdict | None
    """None for a number that is shown and never judged."""
    detail: str


@dataclass(frozen=True)
class Row:
    """One `max_num_seqs`: every rule's finding."""

    max_num_seqs: int
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst finding; a row without any is invalid."""
        judged = [finding.verdict for finding in self.findings if finding.verdict is not None]
        return min(judged, key=lambda verdict: verdict.rank, default=Verdict.INVALID)


def judge_row(stock: Sequence[BootFacts], patched: BootFacts, band: Band | None) -> Row:
    """Judge a patched boot against the stock boots of its session, two at least.

    Without a band the differences are `new`: they are shown, and somebody has to accept one.

    Where the boots cannot be compared at all, only the reasons are found: a difference of such
    boots is no number.
    """
    broken = list(not_comparable(stock, patched))
    if broken:
        return Row(patched.max_num_seqs, tuple(broken))
    first = stock[0]
    findings = [
        Finding("stock repeats", Verdict.PASS, f"{len(stock)} boots, {first.kv_tokens.value} KV tokens each"),
        difference(
            "KV budget falls by the scratch", first.available_kv, patched.available_kv, patched.loaded, band
        ),
        difference(
            "model loading rises by the scratch", patched.model_load, first.model_load, patched.loaded, band
        ),
        adoption(patched, patched.expected_adoptions or first.late_lines),
        tokens(first, patched),
        shown("free memory after boot", first.free_after_boot, patched.free_after_boot),
        shown("resident memory", first.resident, patched.resident),
    ]
    return Row(patched.max_num_seqs, tuple(findings))


def not_comparable(stock: Sequence[BootFacts], patched: BootFacts) -> Iterator[Finding]:
    """Why these boots cannot be compared; nothing if they can."""
    boots = [*stock, patched]
    for name in ("lane", "environment", "session", "max_num_seqs"):
        found = sorted({str(getattr(boot, name)) for boot in boots})
        if len(found) > 1:
            yield invalid(f"same {name}", f"the boots differ: {', '.join(found)}")
    for boot in boots:
        if boot.problem:
            yield invalid("boot", f"{boot.name}: {boot.problem}")
    yield from lineages(boots)
    if patched.ubatching and not patched.late_lines:
        yield invalid(
            "exclusive under ubatching", f"{patched.name}: ubatching is on and every builder adopted"
        )
    if len(stock) < 2:
        yield invalid("stock repeats", f"{len(stock)} stock boot: a pair shows what a boot repeats to")
        return
    tokens_seen = {boot.kv_tokens.value for boot in stock}
    if None in tokens_seen:
        yield invalid("stock repeats", "; ".join(str(boot.kv_tokens.reason) for boot in stock))
    elif len(tokens_seen) > 1:
        listed = ", ".join(str(boot.kv_tokens.value) for boot in stock)
        yield invalid("stock repeats", f"{listed} KV tokens: this machine does not repeat")


def lineages(boots: Sequence[BootFacts]) -> Iterator[Finding]:
    """A boot that loads compiled code profiles less than one that compiles, so warm and cold never mix."""
    cold = [boot for boot in boots if boot.lineage in COLD]
    for boot in boots:
        if boot.lineage == "warm" and cold:
            yield invalid(
                "lineage", f"{boot.name} is warm, {cold[0].name} is cold: the profile saw other work"
            )
        elif boot.lineage == "unknown":
            yield invalid("lineage", f"{boot.name}: its log proves neither a fresh cache nor a disabled one")
    if len({boot.lineage for boot in boots if boot.lineage not in ("warm", "unknown")}) > 1:
        yield invalid("lineage", f"mixed: {', '.join(f'{boot.name} {boot.lineage}' for boot in boots)}")


def difference(
    rule: str, larger: Measured, smaller: Measured, planned: Measured, band: Band | None
) -> Finding:
    """Whether `larger - smaller` is the planned bytes, within the band and the print resolution."""
    unread = [one.reason for one in (larger, smaller, planned) if one.value is None]
    if larger.value is None or smaller.value is None or planned.value is None:
        return invalid(rule, "; ".join(str(reason) for reason in unread))
    resolution = (larger.resolution + smaller.resolution) // 2 + planned.resolution // 2
    found, expected = larger.value - smaller.value, planned.value
    off = found - expected
    detail = f"{mib(found)} found, {mib(expected)} planned, {mib(off, sign=True)} off"
    if band is None:
        return Finding(rule, Verdict.NEW, f"{detail}; this lane has no band yet")
    if expected < BANDS_TO_TELL * (band.width_bytes + resolution):
        return Finding(rule, Verdict.INCONCLUSIVE, f"{detail}; a row under {BANDS_TO_TELL} bands cannot fail")
    low, high = band.low_bytes - resolution, band.high_bytes + resolution
    good = low <= off <= high
    allowed = f"allowed {mib(low, sign=True)} to {mib(high, sign=True)}"
    return Finding(rule, Verdict.PASS if good else Verdict.REGRESSED, f"{detail}; {allowed}")


def adoption(patched: BootFacts, builders: int) -> Finding:
    """Every builder adopted, and no line reports scratch after the profile.

    Args:
        patched: the boot with the pool.
        builders: that a boot constructs; without the pool each reports an allocation of its own.
    """
    rule = "all adopted, none after"
    detail = f"{patched.adopted_lines} of {builders} adopted, {patched.late_lines} after"
    if not builders:
        return invalid(rule, f"{detail}; no boot says how many builders there are")
    good = patched.adopted_lines == builders and not patched.late_lines
    return Finding(rule, Verdict.PASS if good else Verdict.REGRESSED, detail)


def tokens(stock: BootFacts, patched: BootFacts) -> Finding:
    """KV tokens fall by as much as the KV budget, at that boot's own bytes per token, within one block."""
    rule = "KV tokens follow the budget"
    needed = (
        stock.available_kv,
        patched.available_kv,
        stock.kv_tokens,
        patched.kv_tokens,
        stock.block_tokens,
    )
    if any(one.value is None for one in needed):
        return invalid(rule, "; ".join(str(one.reason) for one in needed if one.value is None))
    kv, kv_after, count, count_after, block = (one.value or 0 for one in needed)
    if count <= 0:
        return invalid(rule, f"{stock.name}: {count} KV tokens")
    per_token = kv / count
    fall = (count - count_after) * per_token
    resolution = (stock.available_kv.resolution + patched.available_kv.resolution) / 2
    allowed = block * per_token + resolution
    said = f"{count - count_after} tokens of {per_token:.0f} B are {mib(fall)}"
    detail = f"{said}, the budget fell by {mib(kv - kv_after)}"
    good = abs(fall - (kv - kv_after)) <= allowed
    return Finding(
        rule, Verdict.PASS if good else Verdict.REGRESSED, f"{detail}; one block and print {mib(allowed)}"
    )


def shown(rule: str, stock: Measured, patched: Measured) -> Finding:
    """A number for the reader; it is never judged."""
    if stock.value is None or patched.value is None:
        return Finding(rule, None, f"not read: {stock.reason or patched.reason}")
    return Finding(rule, None, f"{mib(patched.value - stock.value, sign=True)}")


def invalid(rule: str, detail: str) -> Finding:
    """A finding that no verdict can come from."""
    return Finding(rule, Verdict.INVALID, detail)


def mib(count: float, *, sign: bool = False) -> str:
    """Bytes for a reader."""
    return f"{count / MIB:{'+' if sign else ''}.2f} MiB"


@dataclass(frozen=True)
class BudgetStep:
    """What changed from one `max_num_seqs` to the next larger one, within one arm."""

    smaller: int
    larger: int
    scratch_bytes: int
    """By how much the scratch grew."""
    budget_bytes: int
    """By how much the KV budget fell."""

    @property
    def untracked_bytes(self) -> int:
        """Scratch that the budget did not make room for; at most zero when it tracks the scratch."""
        return self.scratch_bytes - self.budget_bytes


def budget_steps(rows: Iterable[tuple[int, int, int]]) -> list[BudgetStep]:
    """Steps between neighbouring rows of (`max_num_seqs`, scratch bytes, available KV bytes)."""
    ordered = sorted(rows)
    return [
        BudgetStep(first[0], second[0], second[1] - first[1], first[2] - second[2])
        for first, second in itertools.pairwise(ordered)
    ]


def untracked_steps(steps: Sequence[BudgetStep], band_bytes: int) -> list[BudgetStep]:
    """Steps in which the budget fell by less than the scratch grew, by more than the band.

    The budget also pays for state per sequence, so it may fall by more; a budget that falls by less
    was fixed before the scratch was allocated.
    """
    return [step for step in steps if step.untracked_bytes > band_bytes]
