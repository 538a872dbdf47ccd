"""One row with everything that led to its verdict."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import date

from ci.gate.policy import Rule
from ci.gate.rows import Band, Row
from ci.report import words
from ci.report.charts import Point, short
from ci.results.records import BaselineHead, RunHead


@dataclass(frozen=True)
class Explained:
    """A row with its surroundings; None where there is no run, baseline or rule."""

    row: Row
    rule: Rule | None
    run: RunHead | None
    baseline: BaselineHead | None
    history: tuple[Point, ...] = ()


def render_explanation(one: Explained, today: date) -> str:
    """Return the explanation as lines of ``name: text``."""
    row = one.row
    where = f"{words.plain(row.lane)}/{words.plain(row.suite)}"
    lines = [
        f"{where}  {words.show_case(row)}  {words.plain(row.metric)}",
        _field("verdict", words.show_verdict(row)),
        _field("expected", words.show_value(row.baseline) + _band(row.band)),
        _field("got", words.show_value(row.got)),
        _field("why", row.why or "within its policy"),
        _field("policy", _policy(one.rule)),
    ]
    if one.rule is not None:
        lines.append(_field("origin", one.rule.origin))
    lines += [_field("condition", text) for text in _conditions(one)]
    lines.append(_field("accepted", words.show_acceptance(row, today)))
    if row.source is not None:
        lines.append(_field("source", row.source))
    if len(one.history) > 1:
        steps = ", ".join(f"{point.value} ({point.date})" for point in one.history[-5:])
        lines.append(_field("history", steps))
    lines.append(_field("measured by", _subject(one.run)))
    lines.append(_field("repeat", repeat_command(row, one.run)))
    if row.remedy:
        lines.append(_field("remedy", row.remedy))
    return "\n".join(lines) + "\n"


def repeat_command(row: Row, run: RunHead | None) -> str:
    """Return the command that measures the row again on this machine."""
    command = ["python", "-m", "ci", "run", row.suite, "--lane", row.lane]
    if run is not None:
        command += ["--arm", run.subject.arm]
        for name, value in sorted(run.subject.flags.items()):
            command += ["--flag", f"{name}={value}"]
    return shlex.join(command)


def _field(name: str, text: str) -> str:
    return f"  {name + ':':13}{words.plain(text, 600)}"


def _band(band: Band | None) -> str:
    if band is None:
        return ""
    if band.low is not None and band.high is not None:
        return "" if band.low == band.high else f", passes from {short(band.low)} to {short(band.high)}"
    if band.high is not None:
        return f", passes up to {short(band.high)}"
    return f", passes from {short(band.low)}" if band.low is not None else ""


def _policy(rule: Rule | None) -> str:
    if rule is None:
        return "no rule matches"
    place = rule.file if rule.line is None else f"{rule.file}:{rule.line}"
    return f"{place}: {str(rule).partition(': ')[2]}"


def _conditions(one: Explained) -> list[str]:
    """Return every condition that matters with both sides; the lane always does."""
    if one.run is None or one.baseline is None:
        return []
    names = ("lane", *(one.rule.conditions if one.rule else ()))
    lines = []
    for name in dict.fromkeys(names):
        before, after = one.baseline.conditions.get(name), one.run.conditions.get(name)
        if name == "lane":
            before, after = one.baseline.lane, one.run.lane
        same = before is not None and before == after
        differs = f"{name}: accepted under {before}, measured under {after}"
        lines.append(f"{name} = {after}" if same else differs)
    return lines


def _subject(run: RunHead | None) -> str:
    if run is None:
        return "nothing: there is no usable run"
    return f"arm {run.subject.arm}, series {run.subject.series_hash[:12]}, started {run.started}"
