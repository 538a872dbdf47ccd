"""The verdict as one HTML page: no script, no request, every foreign text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from html import escape
from itertools import groupby

from ci.errors import ExitCode
from ci.gate.rows import GateVerdict, Row, SuiteVerdict
from ci.gate.verdict import Verdict, verdict_word
from ci.report import charts, words
from ci.report.charts import Point, text
from ci.report.page_style import STYLE
from ci.results.jsonl import natural

History = Mapping[tuple[str, str, str, str], Sequence[Point]]
"""(lane, suite, case, metric) -> accepted values, oldest first."""
MAX_ROWS = 500
MAX_METRICS = 400
"""Per suite; a page with more is no longer read, and every one that does not pass stands in the table."""
MAX_REMARKS = 100
HEAT_SUITES = ("oracle",)
MEMORY_SUITES = ("membudget",)
_CSP = "default-src 'none'; style-src 'unsafe-inline'"


def render_page(
    verdict: GateVerdict,
    *,
    history: History | None = None,
    today: date | None = None,
    title: str = "forkproof",
) -> str:
    """Return the page.

    Args:
        verdict: what is shown.
        history: accepted values of the metrics over time.
        today: UTC, what the age of a baseline is counted from.
        title: of the page.
    """
    outcome, code = verdict.outcome
    shown = verdict_word(outcome, code)
    known = history or {}
    day = today or datetime.now(UTC).date()
    parts = [
        _header(verdict, shown, code, day),
        _suites(verdict.suites),
        _rows(words.rows_to_show(verdict.rows), day),
        _intervals(verdict.rows),
        *(_heat_map(verdict, suite) for suite in HEAT_SUITES),
        _memory(verdict),
        *(_metrics(suite, known) for suite in verdict.suites),
        _transcribed(verdict.rows),
        _remarks(verdict),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_CSP, quote=True)}">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{text(f'{title}: {shown}')}</title><style>{STYLE}</style></head>\n"
        f"<body><main>\n{''.join(part for part in parts if part)}</main></body></html>\n"
    )


def _header(verdict: GateVerdict, shown: str, code: ExitCode, day: date) -> str:
    outcome = verdict.outcome[0]
    kind = "bad" if code is ExitCode.CONTROL_FAILED else charts.css_class(outcome)
    totals = {one: sum(suite.counts[one] for suite in verdict.suites) for one in Verdict}
    tiles = "".join(
        f'<div class="tile"><b>{count}</b>{charts.word(one)}</div>' for one, count in totals.items() if count
    )
    return (
        f'<header class="{"open" if kind == "new" else kind}"><h1>{text(shown)}</h1>'
        f'<p>{text(verdict.detail)} (exit {int(code)})</p><p class="soft">written {day.isoformat()}</p>'
        f'<div class="tiles">{tiles}</div></header>\n'
    )


def _section(title: str, body: str, lead: str = "") -> str:
    intro = f'<p class="soft">{lead}</p>' if lead else ""
    return f"<section><h2>{text(title)}</h2>{intro}{body}</section>\n"


def _table(names: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table whose cells are HTML; on a narrow screen each line becomes a card."""
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-name="{name}"><div>{cell}</div></td>' for name, cell in zip(names, line, strict=True)
        )
        + "</tr>"
        for line in lines
    )
    return f'<table class="cards"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _suites(suites: tuple[SuiteVerdict, ...]) -> str:
    lines = [
        (
            text(suite.lane),
            text(suite.suite),
            text(suite.subject) or "&#8211;",
            words.show_cases(suite),
            words.show_controls(suite),
            words.show_tests(suite),
            _suite_word(suite),
        )
        for suite in suites
    ]
    names = ("lane", "suite", "arm", "cases", "controls", "tests", "verdict")
    return _section("Suites", _table(names, lines) if lines else "<p>No suite was compared.</p>")


def _suite_word(suite: SuiteVerdict) -> str:
    return charts.word(suite.verdict, words.show_suite_verdict(suite))


def _rows(rows: list[Row], day: date) -> str:
    if not rows:
        return ""
    lines = [
        (
            charts.word(row.verdict, words.show_verdict(row)),
            f"{text(row.lane)} / {text(row.suite)}",
            f"<code>{text(words.show_case(row))}</code><br><code>{text(row.metric, 80)}</code>",
            _values(row),
            _why(row, day),
        )
        for row in rows[:MAX_ROWS]
    ]
    more = len(rows) - len(lines)
    left = (
        f"<p>{more} more rows are not shown; <code>python -m ci diff</code> prints them.</p>" if more else ""
    )
    return _section(
        "What needs a look", _table(("verdict", "where", "case, metric", "got", "why"), lines) + left
    )


def _values(row: Row) -> str:
    accepted = text(words.show_value(row.baseline))
    return f"{text(words.show_value(row.got))}<br><small>accepted: {accepted}</small>"


def _why(row: Row, day: date) -> str:
    parts = [text(row.why) or "&#8211;"]
    if row.remedy:
        parts.append(f"<small>remedy:</small> <code>{text(row.remedy)}</code>")
    if row.rule:
        parts.append(f"<small>policy:</small> <code>{text(row.rule)}</code>")
    if row.accepted is not None:
        parts.append(f"<small>accepted {text(words.show_acceptance(row, day))}</small>")
    return "<br>".join(parts)


def _intervals(rows: tuple[Row, ...]) -> str:
    judged = [(row, row.ab) for row in rows if row.ab is not None and row.ab.estimates]
    if not judged:
        return ""
    scale = charts.interval_scale(result for _, result in judged)
    body = "".join(
        f'<div class="metric"><div><code>{text(row.case, 120)}</code><br><code>{text(row.metric, 80)}</code> '
        f"<small>{text(row.lane)} / {text(row.suite)}</small></div>"
        f"<div>{charts.interval(result, row.verdict, scale)}</div>"
        f"<div>{charts.word(row.verdict)} <small>{text(result.why, 600)}</small></div></div>"
        for row, result in judged
    )
    legend = _legend(("band", "no loss beyond the margin"), ("span", "interval"), ("margin", "margin"))
    return _section("Speed, arm against arm", legend + body, "Plus is better. One axis for all.")


def _heat_map(verdict: GateVerdict, suite: str) -> str:
    chosen = [one for one in verdict.suites if one.suite == suite]
    cases = sorted(
        {
            row.case
            for one in chosen
            for row in one.rows
            if row.case != "-" and not row.control and row.metric != "test"
        },
        key=natural,
    )
    if not cases:
        return ""
    head = "".join(f'<th scope="col">{text(one.lane)}</th>' for one in chosen)
    lines = "".join(
        f'<tr><th scope="row"><code>{text(case, 60)}</code></th>'
        + "".join(_heat_cell(one, case) for one in chosen)
        + "</tr>"
        for case in cases
    )
    table = f'<table class="heat"><thead><tr><th></th>{head}</tr></thead>{lines}</table>'
    lead = (
        "How much of its tightest bound each case uses, or what is wrong with it. A dash: not planned there."
    )
    return _section(f"{suite}: cases by lane", f'<div class="scroll">{table}</div>', lead)


def _heat_cell(suite: SuiteVerdict, case: str) -> str:
    if suite.cases_planned and not suite.cases_measured:
        return '<td class="open">not run</td>'
    return charts.heat_cell([row for row in suite.rows if row.case == case])


def _memory(verdict: GateVerdict) -> str:
    drawn = [
        (suite.lane, case, list(rows))
        for suite in verdict.suites
        if suite.suite in MEMORY_SUITES
        for case, rows in groupby(_memory_rows(suite), key=lambda row: row.case)
    ]
    loads = [(lane, case, charts.load_steps(rows)) for lane, case, rows in drawn]
    boots = [(lane, case, charts.boot_steps(rows)) for lane, case, rows in drawn]
    parts = [
        _waterfalls(
            loads,
            _legend(("bar", "inside the memory budget"), ("bar late", "allocated after it was fixed")),
        ),
        _waterfalls(
            boots,
            '<p class="soft">Boots with the arm, less boots without it; right of the line is more memory in '
            "use. What model loading rises by, the KV budget gives up again. <code>free_rise</code> is what "
            "remains: memory that used to be allocated late.</p>",
        ),
    ]
    body = "".join(parts)
    return _section("Memory, step by step", body) if body else ""


def _memory_rows(suite: SuiteVerdict) -> list[Row]:
    rows = [row for row in suite.rows if row.got is not None and not row.control]
    return sorted(
        rows, key=lambda row: (natural(row.case), row.metric != "bytes_at_load", natural(row.metric))
    )


def _waterfalls(cases: Iterable[tuple[str, str, Sequence[charts.Step]]], lead: str) -> str:
    """Return the cases with more than one step, under the lead; nothing without such a case."""
    shown = "".join(
        f"<h3><code>{text(case, 80)}</code> <small>{text(lane)}</small></h3>{charts.waterfall(steps)}"
        for lane, case, steps in cases
        if len(steps) > 1
    )
    return lead + shown if shown else ""


def _metrics(suite: SuiteVerdict, history: History) -> str:
    drawn = [row for row in suite.rows if charts.bullet(row)]
    drawn.sort(key=lambda row: (natural(row.case), natural(row.metric)))
    if not drawn:
        return ""
    parts = []
    for case, rows in groupby(drawn[:MAX_METRICS], key=lambda row: row.case):
        parts.append(f"<h3><code>{text(case, 120)}</code></h3>")
        parts += [_metric(row, history.get((row.lane, row.suite, row.case, row.metric), ())) for row in rows]
    more = len(drawn) - MAX_METRICS
    left = f"<p>{more} more metrics are not drawn.</p>" if more > 0 else ""
    open_ = "" if suite.verdict is Verdict.PASS else " open"
    legend = _legend(
        ("band", "what passes"), ("tick", "accepted"), ("dot", "measured"), ("spark", "accepted over time")
    )
    name = f"{text(suite.lane)} / {text(suite.suite)}: each metric against its band {_suite_word(suite)}"
    body = f"{legend}{''.join(parts)}{left}"
    return f'<details class="card"{open_}><summary>{name}</summary>{body}</details>\n'


def _metric(row: Row, points: Sequence[Point]) -> str:
    control = " (control)" if row.control else ""
    return (
        f'<div class="metric"><div><code>{text(row.metric, 80)}</code>{control} {charts.word(row.verdict)}'
        f"<br>{text(words.show_value(row.got))}</div><div>{charts.bullet(row, points)}</div>"
        f"<div>{charts.sparkline(points)}</div></div>"
    )


def _transcribed(rows: tuple[Row, ...]) -> str:
    copied = [row for row in rows if row.source is not None]
    if not copied:
        return ""
    lines = [
        (
            f"{text(row.lane)} / {text(row.suite)}",
            f"<code>{text(row.case, 120)}</code> <code>{text(row.metric, 80)}</code>",
            text(words.show_value(row.baseline)),
            text(row.source or ""),
        )
        for row in copied[:MAX_ROWS]
    ]
    lead = f"{len(copied)} baselines were copied from a publication and never measured by this gate."
    return _section(
        "Transcribed baselines", _table(("where", "case, metric", "accepted", "source"), lines), lead
    )


def _remarks(verdict: GateVerdict) -> str:
    remarks = [f"{suite.lane}/{suite.suite}: {one}" for suite in verdict.suites for one in suite.warnings]
    remarks += verdict.notes
    if not remarks:
        return ""
    items = "".join(f"<li>{text(remark)}</li>" for remark in remarks[:MAX_REMARKS])
    more = len(remarks) - MAX_REMARKS
    left = f"<p>{more} more are not shown.</p>" if more > 0 else ""
    return _section("Warnings and notes", f"<ul>{items}</ul>{left}")


_KEYS = {
    "band": "background:var(--band)",
    "span": "background:var(--ink);height:4px",
    "margin": "background:var(--bad);width:3px",
    "tick": "background:var(--tick);width:3px;height:12px",
    "dot": "background:var(--good);width:10px;border-radius:50%",
    "spark": "background:var(--new);height:2px",
    "bar": "background:var(--new)",
    "bar late": "background:var(--open)",
}


def _legend(*entries: tuple[str, str]) -> str:
    shown = "".join(
        f'<span><i class="key" style="{_KEYS[key]}"></i>{text(label)}</span>' for key, label in entries
    )
    return f'<div class="legend">{shown}</div>'
