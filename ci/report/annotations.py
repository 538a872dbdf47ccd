"""The worst rows as GitHub annotations: workflow commands in which no foreign text can start another."""

from __future__ import annotations

from ci.gate.rows import GateVerdict, Row
from ci.gate.verdict import Verdict
from ci.report import words

MAX_ANNOTATIONS = 10
"""What GitHub shows of one step; further ones are dropped without a word."""
MAX_MESSAGE_CHARS = 600


def render_annotations(verdict: GateVerdict) -> str:
    """Return one line per annotation, the worst rows first; the last one counts what is left out."""
    rows = [row for row in verdict.rows if row.control_failed or row.verdict is not Verdict.PASS]
    whole = len(rows) <= MAX_ANNOTATIONS
    lines = [_line(row) for row in rows[: MAX_ANNOTATIONS if whole else MAX_ANNOTATIONS - 1]]
    if not whole:
        left = len(rows) - len(lines)
        lines.append(f"::warning title=forkproof::{left} more rows do not pass; the job summary lists them")
    return "".join(f"{line}\n" for line in lines)


def _line(row: Row) -> str:
    level = "error" if row.control_failed or row.verdict is Verdict.REGRESSED else "warning"
    if row.verdict is Verdict.IMPROVED:
        level = "notice"
    title = f"{words.show_verdict(row)}: {row.lane}/{row.suite} {words.show_case(row)} {row.metric}"
    got, accepted = words.show_value(row.got), words.show_value(row.baseline)
    message = f"got {got}, accepted {accepted}. {row.why}" + (f" Remedy: {row.remedy}" if row.remedy else "")
    return (
        f"::{level} title={_property(words.plain(title))}::{_data(words.plain(message, MAX_MESSAGE_CHARS))}"
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
