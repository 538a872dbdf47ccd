"""Texts that all reports share: values, names, footnotes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from ci.gate.rows import Row, SuiteVerdict, Value
from ci.gate.verdict import Verdict, verdict_word

MIB = 1024 * 1024
GIB = 1024 * MIB
MAX_TEXT_CHARS = 300
"""What a report shows of one foreign text."""
TRANSCRIBED = "transcribed, never measured here"
"""Mark of a baseline that was copied from a publication."""
_HIDDEN_UNITS = ("", "1", "bool", "name")
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff]"
)


@dataclass(frozen=True)
class Note:
    """A footnote that one or more rows share."""

    number: int
    why: str
    remedy: str


def plain(text: str, limit: int = MAX_TEXT_CHARS) -> str:
    """Return foreign text on one line, cut at ``limit``, with invisible characters escaped."""
    if len(text) > limit:
        text = text[: limit - 1] + "\u2026"
    return _INVISIBLE.sub(lambda match: _escape(match.group(0)), text)


def _escape(character: str) -> str:
    return "\\n" if character == "\n" else f"\\u{ord(character):04x}"


def show_value(value: Value | None) -> str:
    """Return a value with its unit; large byte counts also in MiB or GiB."""
    if value is None:
        return "none"
    if value.value is None:
        return "unread"
    unit = "" if value.unit in _HIDDEN_UNITS else f" {value.unit}"
    return plain(f"{_digits(value)}{unit}{_rounded_bytes(value)}", 80)


def _digits(value: Value) -> str:
    if isinstance(value.value, bool):
        return "true" if value.value else "false"
    return value.printed or str(value.value)


def _rounded_bytes(value: Value) -> str:
    if value.unit != "bytes" or isinstance(value.value, bool | str) or value.value is None:
        return ""
    if abs(value.value) >= GIB:
        return f" ({value.value / GIB:.2f} GiB)"
    return f" ({value.value / MIB:.1f} MiB)" if abs(value.value) >= MIB else ""


def show_case(row: Row) -> str:
    """Return the case's name, marked if it is a control."""
    return plain(row.case, 120) + (" (control)" if row.control else "")


def show_acceptance(row: Row, today: date) -> str:
    """Return who accepted the baseline, how long ago and why; a transcription says that it is one."""
    if row.accepted is None:
        return "never"
    who = plain(row.accepted.by, 40)
    mark = TRANSCRIBED + ", " if row.source is not None else ""
    return f"{mark}{_age(row.accepted.date, today)} by {who}: {plain(row.accepted.why, 100)}"


def _age(accepted: str, today: date) -> str:
    try:
        days = (today - date.fromisoformat(accepted)).days
    except ValueError:
        return f"at no readable date ({plain(accepted, 20)})"
    if days < 0:
        return f"{-days} days in the future"
    return "today" if days == 0 else "yesterday" if days == 1 else f"{days} days ago"


def show_verdict(row: Row) -> str:
    """Return the word for the row's verdict; a control that stayed green says so."""
    return "control failed" if row.control_failed else row.verdict.value


def show_suite_verdict(suite: SuiteVerdict) -> str:
    """Return the word for the suite's verdict."""
    return verdict_word(suite.verdict, suite.exit_code)


def show_cases(suite: SuiteVerdict) -> str:
    """Return measured cases of planned ones."""
    return f"{suite.cases_measured} of {suite.cases_planned}"


def show_controls(suite: SuiteVerdict) -> str:
    """Return red controls of planned ones."""
    return f"{suite.controls_red} of {suite.controls_planned} red"


def show_tests(suite: SuiteVerdict) -> str:
    """Return how many tests were executed."""
    return "unknown" if suite.tests_executed is None else str(suite.tests_executed)


def rows_to_show(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that say more than ``pass``, in the order given."""
    return [row for row in rows if row.verdict is not Verdict.PASS]


def footnotes(rows: Iterable[Row]) -> tuple[list[int], list[Note]]:
    """Return each row's footnote number and the footnotes, equal ones joined."""
    numbers: dict[tuple[str, str], int] = {}
    marks = [numbers.setdefault((row.why, row.remedy), len(numbers) + 1) for row in rows]
    return marks, [Note(number, why, remedy) for (why, remedy), number in numbers.items()]
