"""The verdict for a pull request: GitHub-flavoured Markdown that no foreign text can break out of."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from ci.gate.rows import GateVerdict, Row, SuiteVerdict
from ci.gate.verdict import Verdict, verdict_word
from ci.report import words

MARKER = "<!-- forkproof:verdict -->"
"""First line of the comment, by which a later run finds it again."""
MAX_BYTES = 65_000
"""GitHub refuses a comment above 65,536 characters; bytes are never fewer."""
MAX_SUMMARY_BYTES = 900 * 1024
"""GitHub drops a whole job summary of 1 MiB without a word; bytes count, not characters."""
MAX_REMARKS = 20
_LINK = re.compile(r"https://[A-Za-z0-9._~/?#@!$&*+,;=%-]{1,500}")
_LIVE = re.compile(r":(?=\S)|[^A-Za-z0-9 ,;:'()/=%+.\u00a1-\U0010ffff-]")
"""Whatever Markdown or HTML could read; a colon only where an emoji, a link or a command could start."""
_WWW = re.compile(r"www\.", re.IGNORECASE)
_ICONS = {
    Verdict.PASS: "\u2705",
    Verdict.IMPROVED: "\u2705",
    Verdict.REGRESSED: "\u274c",
    Verdict.INVALID: "\u26a0\ufe0f",
    Verdict.MISSING: "\u26a0\ufe0f",
    Verdict.INCONCLUSIVE: "\u26a0\ufe0f",
    Verdict.NEW: "\u26a0\ufe0f",
}
_HEADER = (
    "| verdict | lane | suite | case | metric | baseline | got | policy | accepted | note |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


def render_markdown(
    verdict: GateVerdict, *, max_bytes: int = MAX_BYTES, today: date | None = None, more_at: str = ""
) -> str:
    """Return the comment: headline, suites, the rows that are not ``pass``, worst first, cut to fit.

    Args:
        verdict: what is shown.
        max_bytes: the size that the text must not exceed.
        today: UTC, what the age of a baseline is counted from.
        more_at: address of the whole report, linked where rows are left out.
    """
    outcome, exit_code = verdict.outcome
    headline = f"{_ICONS[outcome]} {verdict_word(outcome, exit_code)}"
    parts = [
        f"{MARKER}\n### {headline}\n\n{prose(verdict.detail)} (exit {int(exit_code)})\n",
        _suite_table(verdict.suites, max_bytes // 4),
    ]
    remarks = _remarks(verdict, max_bytes // 6)
    used = sum(len(part.encode()) for part in (*parts, remarks)) + 500
    parts += _row_parts(
        words.rows_to_show(verdict.rows), max_bytes - used, today or datetime.now(UTC).date(), more_at
    )
    return "\n".join([*parts, remarks]).rstrip("\n") + "\n"


def code(text: str, limit: int = 120) -> str:
    """Return foreign text as code: no Markdown, HTML, mention, reference or link in it is live."""
    escaped = _entities(words.plain(text, limit))
    return f"<code>{escaped}</code>" if escaped.strip() else "-"


def prose(text: str) -> str:
    """Return our own sentence, which may quote foreign text, with everything special escaped.

    A zero-width space behind ``@`` and ``#`` keeps mentions and references dead
    even after the entities were decoded.
    """
    escaped = _entities(words.plain(text))
    return (
        escaped.replace("&#64;", "&#64;&#8203;").replace("&#35;", "&#35;&#8203;").replace("GH-", "GH&#8203;-")
    )


def _entities(text: str) -> str:
    text = _LIVE.sub(lambda match: f"&#{ord(match.group(0))};", text)
    return _WWW.sub(lambda match: match.group(0)[:3] + "&#46;", text)


def _suite_table(suites: tuple[SuiteVerdict, ...], max_bytes: int) -> str:
    lines = ["| lane | suite | arm | cases | controls | tests | verdict |", "|---|---|---|---|---|---|---|"]
    size = 0
    for index, suite in enumerate(suites):
        line = _line(
            prose(suite.lane),
            prose(suite.suite),
            prose(suite.subject) or "-",
            words.show_cases(suite),
            words.show_controls(suite),
            words.show_tests(suite),
            f"{_ICONS[suite.verdict]} {words.show_suite_verdict(suite)}",
        )
        size += len(line.encode()) + 1
        if size > max_bytes:
            lines.append(f"\n{len(suites) - index} more suites are not shown.")
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def render_summary(verdict: GateVerdict, *, today: date | None = None, more_at: str = "") -> str:
    """Return the job summary: the same page with the room that a summary has."""
    return render_markdown(verdict, max_bytes=MAX_SUMMARY_BYTES, today=today, more_at=more_at)


def _row_parts(rows: list[Row], budget: int, today: date, more_at: str) -> list[str]:
    """Return the table and its footnotes; rows are left out from the end until both fit."""
    if not rows:
        return []
    lines: list[str] = []
    notes: dict[tuple[str, str], int] = {}
    note_lines: list[str] = []
    used = len(_HEADER)
    for row in rows:
        key = (row.why, row.remedy)
        number = notes.get(key, len(notes) + 1)
        line = _row_line(row, number, today)
        note = "" if key in notes else _note_line(row, number)
        used += len(line.encode()) + len(note.encode()) + 2
        if used > budget:
            break
        lines.append(line)
        if key not in notes:
            notes[key] = number
            note_lines.append(note)
    left = len(rows) - len(lines)
    where = f"[the whole report]({more_at}) has" if _LINK.fullmatch(more_at) else "`python -m ci diff` prints"
    more = [f"{left} more rows are not shown; {where} them.\n"] if left else []
    return ["\n".join([_HEADER, *lines]) + "\n", *more, "\n".join(note_lines) + "\n"]


def _row_line(row: Row, note: int, today: date) -> str:
    return _line(
        words.show_verdict(row),
        prose(row.lane),
        prose(row.suite),
        code(row.case) + (" (control)" if row.control else ""),
        code(row.metric, 80),
        code(words.show_value(row.baseline)),
        code(words.show_value(row.got)),
        code(row.rule, 160),
        prose(words.show_acceptance(row, today)),
        f"({note})",
    )


def _note_line(row: Row, number: int) -> str:
    remedy = f"<br>remedy: {code(row.remedy, 300)}" if row.remedy else ""
    return f"- ({number}) {prose(row.why) or '-'}{remedy}"


def _remarks(verdict: GateVerdict, max_bytes: int) -> str:
    remarks = [
        f"{suite.lane}/{suite.suite}: {warning}" for suite in verdict.suites for warning in suite.warnings
    ]
    remarks += verdict.notes
    if not remarks:
        return ""
    lines: list[str] = []
    for remark in remarks[:MAX_REMARKS]:
        line = f"- {prose(remark)}"
        max_bytes -= len(line.encode()) + 1
        if max_bytes < 0:
            break
        lines.append(line)
    if len(remarks) > len(lines):
        lines.append(f"- {len(remarks) - len(lines)} more are not shown")
    return "\n".join(["<details><summary>Warnings and notes</summary>", "", *lines, "", "</details>", ""])


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
