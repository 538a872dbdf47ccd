"""The verdict for a terminal or a log."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci.gate.rows import GateVerdict, Row, SuiteVerdict
from ci.gate.verdict import last_line
from ci.report import words

MAX_ROWS = 200
MAX_WARNINGS = 20
DEFAULT_WIDTH = 160
"""Columns where the output is no terminal: a row with its policy line fits, and logs scroll."""
_STYLES = {
    "control failed": "bold red",
    "regressed": "bold red",
    "invalid": "red",
    "missing": "red",
    "inconclusive": "yellow",
    "new": "yellow",
    "improved": "green",
    "pass": "green",
}


def render_console(
    verdict: GateVerdict, *, width: int = DEFAULT_WIDTH, color: bool = False, today: date | None = None
) -> str:
    """Return the report: suites, rows that are not ``pass`` with footnotes, remarks, last line.

    ``today`` (UTC) is what the age of a baseline is counted from.
    """
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        color_system="standard" if color else None,
        force_terminal=color,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    rows = words.rows_to_show(verdict.rows)
    console.print(_suite_table(verdict.suites))
    if rows:
        _print_rows(console, rows, today or datetime.now(UTC).date())
    _print_remarks(console, verdict)
    outcome, code = verdict.outcome
    # Not through rich, which would wrap it: the last line is read by programs as well.
    out.write(last_line(outcome, words.plain(verdict.detail), code) + "\n")
    return out.getvalue()


def _table() -> Table:
    # With edges, so that no foreign text can stand at the start of a line, where runners look for commands.
    return Table(box=box.SQUARE, show_edge=True, header_style="bold", pad_edge=True)


def _suite_table(suites: tuple[SuiteVerdict, ...]) -> Table:
    table = _table()
    for name in ("lane", "suite", "arm", "cases", "controls", "tests", "verdict"):
        table.add_column(name, overflow="fold")
    for suite in suites:
        table.add_row(
            Text(words.plain(suite.lane)),
            Text(words.plain(suite.suite)),
            Text(words.plain(suite.subject, 40) or "-"),
            Text(words.show_cases(suite)),
            Text(words.show_controls(suite)),
            Text(words.show_tests(suite)),
            _word(words.show_suite_verdict(suite)),
        )
    return table


def _print_rows(console: Console, rows: list[Row], today: date) -> None:
    shown = rows[:MAX_ROWS]
    marks, notes = words.footnotes(shown)
    table = _table()
    for name in (
        "verdict",
        "lane",
        "suite",
        "case",
        "metric",
        "baseline",
        "got",
        "policy",
        "accepted",
        "note",
    ):
        table.add_column(name, overflow="fold")
    for row, mark in zip(shown, marks, strict=True):
        table.add_row(
            _word(words.show_verdict(row)),
            Text(words.plain(row.lane)),
            Text(words.plain(row.suite)),
            Text(words.show_case(row)),
            Text(words.plain(row.metric, 80)),
            Text(words.show_value(row.baseline)),
            Text(words.show_value(row.got)),
            Text(words.plain(row.rule) or "-"),
            Text(words.show_acceptance(row, today)),
            Text(f"[{mark}]"),
        )
    console.print(table)
    if len(rows) > len(shown):
        console.print(Text(f"{len(rows) - len(shown)} more rows are not shown"))
    for note in notes:
        # Not wrapped: a wrapped line would start with foreign text.
        console.print(Text(f"[{note.number}] why:    {words.plain(note.why)}"), soft_wrap=True)
        if note.remedy:
            console.print(Text(f"    remedy: {words.plain(note.remedy)}"), soft_wrap=True)


def _print_remarks(console: Console, verdict: GateVerdict) -> None:
    remarks = [
        f"warning: {suite.lane}/{suite.suite}: {warning}"
        for suite in verdict.suites
        for warning in suite.warnings
    ]
    remarks += [f"note: {note}" for note in verdict.notes]
    for remark in remarks[:MAX_WARNINGS]:
        console.print(Text(words.plain(remark)), soft_wrap=True)
    if len(remarks) > MAX_WARNINGS:
        console.print(Text(f"{len(remarks) - MAX_WARNINGS} more warnings and notes are not shown"))


def _word(word: str) -> Text:
    return Text(word, style=_STYLES[word])
