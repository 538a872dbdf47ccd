"""Memory rows as text: one table like the published ones, then every finding that is not a pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ci.gate.attempts import Attempt
from ci.gate.membudget import MIB, Row
from ci.gate.verdict import Verdict
from ci.report.words import plain
from ci.results.boot import BootFacts, Measured

HEADER = (
    "max_num_seqs",
    "at load",
    "model loading",
    "available KV",
    "KV tokens",
    "free",
    "builders",
    "verdict",
)
ATTEMPT_HEADER = ("boot", "outcome", "cause", "came to")


@dataclass(frozen=True)
class RowBoots:
    """A judged row with the boots that it is about."""

    row: Row
    stock: Sequence[BootFacts]
    patched: BootFacts


def render_rows(rows: Sequence[RowBoots]) -> str:
    """The table (patched minus stock), then the findings."""
    lines = aligned([HEADER, *(cells_of(one) for one in rows)])
    return "\n".join([*lines, "", *(line for one in rows for line in findings_of(one.row))]) + "\n"


def render_attempts(attempts: Sequence[Attempt], found: Sequence[str]) -> str:
    """How each boot ended, then what did not end as published."""
    cells = [(one.name, one.outcome, plain(one.cause or "-"), one.stage or "-") for one in attempts]
    return "\n".join([*aligned([ATTEMPT_HEADER, *cells]), "", *map(plain, found)]) + "\n"


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines whose columns begin below one another."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def cells_of(one: RowBoots) -> tuple[str, ...]:
    """One line of the table."""
    stock, patched = one.stock[0], one.patched
    return (
        str(one.row.max_num_seqs),
        size(patched.loaded),
        change(stock.model_load, patched.model_load),
        change(stock.available_kv, patched.available_kv),
        change(stock.kv_tokens, patched.kv_tokens, unit=1),
        change(stock.free_after_boot, patched.free_after_boot),
        f"{patched.adopted_lines} adopted / {patched.late_lines} after",
        one.row.verdict.value,
    )


def findings_of(row: Row) -> list[str]:
    """Findings that a reader has to see: all but passes and numbers that are only shown."""
    return [
        f"[{row.max_num_seqs}] {finding.verdict.value}: {finding.rule}: {plain(finding.detail)}"
        for finding in row.findings
        if finding.verdict not in (None, Verdict.PASS)
    ]


def size(measured: Measured) -> str:
    """A size in MiB."""
    return "not read" if measured.value is None else f"{measured.value / MIB:.2f} MiB"


def change(before: Measured, after: Measured, unit: int = MIB) -> str:
    """What changed, in MiB or as a count."""
    if before.value is None or after.value is None:
        return "not read"
    found = after.value - before.value
    return f"{found:+,}" if unit == 1 else f"{found / unit:+.2f} MiB"
