"""Verdict files of the field: the numerical check's own JSON lines, as other people's runs leave them.

The first line says what was checked (``provenance``, ``declared``, ``capacity``, ``seq_threshold_3D``); every
further line is one case.  Keys that are not listed here are kept in the provenance and otherwise ignored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ci.results.files import read_limited
from ci.results.jsonl import RecordsError, refuse_doubled_keys
from ci.results.records import SCHEMA_VERSION, Record, RunHead, Subject

MAX_BYTES = 16 * 1024 * 1024
REMEDY = "get the file again from where it was written; a line is one whole JSON object"
DECLARED_THRESHOLD = 32
"""128 // 4 KV heads, eager: the configuration that the oracle declares."""
QUERY_LENGTHS = re.compile(r"\[(\d+(?:,\d+)*)\]$")
PUBLISHED = (
    "decode-[1]",
    "boundary-[16]",
    "policy-[17]",
    "even-[8,8]",
    "units-[16,1]",
    "ragged-[1,8,3]",
    "zerorow-[4,0,3]",
    "hist-[9]",
    "breach-[16,16,16]",
    "wild-[848]",
)
"""The cases of the check: a file that lacks one says nothing about it."""
ROW_PREFIX = re.compile(r"row\d+-")

T = TypeVar("T")


class VerdictFileError(RecordsError):
    """A verdict file of the field that cannot be read."""


class FieldHead(msgspec.Struct, frozen=True):
    """The first line."""

    provenance: dict[str, Any]
    declared: Any
    capacity: int
    """Query tokens."""
    seq_threshold_3D: int  # noqa: N815 - the field's own key


class FieldRow(msgspec.Struct, frozen=True):
    """One case; the breach case has a state instead of differences."""

    row: str
    q_lens: list[int]
    checks: Any
    ok: bool
    reasons_2d: str | list[str] | None = None
    reasons_3d: str | list[str] | None = None
    max_abs_diff_2d_vs_3d: float | None = None
    ref_max_abs_2d: float | None = None
    ref_max_abs_3d: float | None = None
    out_max_abs: float | None = None
    breach_state_after: dict[str, Any] | None = None

    @property
    def case(self) -> str:
        """The row's name as this gate spells it: without the row number."""
        return ROW_PREFIX.sub("", self.row, count=1)


NUMBERS = {
    "max_abs_diff_2d_vs_3d": "launcher_diff_2d_3d",
    "ref_max_abs_2d": "launcher_ref_flag0",
    "ref_max_abs_3d": "launcher_ref_flag1",
    "out_max_abs": "launcher_out_max",
}
"""The field's key -> our metric; all at the launcher."""


@dataclass(frozen=True)
class FieldVerdicts:
    """A whole file."""

    head: FieldHead
    rows: tuple[FieldRow, ...]
    sha256: str
    extra: dict[str, str]
    """Keys this reader does not know, by ``line N``, as JSON."""


def read_field_verdicts(path: Path) -> FieldVerdicts:
    """Read a verdict file.

    Raises:
        VerdictFileError: a line that is torn, no JSON, not finite, or lacks a key; names file and line.
    """
    data = read_limited(path, MAX_BYTES)
    lines = list(_objects(path, data))
    if not lines:
        raise VerdictFileError(f"{path}: the file is empty", remedy=REMEDY)
    (number, first), *rest = lines
    if not rest:
        raise VerdictFileError(f"{path}:{number}: a head and no case", remedy=REMEDY)
    extra: dict[str, str] = {}
    head = _convert(path, number, first, FieldHead, extra)
    rows = tuple(_row(path, number, value, extra) for number, value in rest)
    seen: dict[str, int] = {}
    for (line, _), row in zip(rest, rows, strict=True):
        if row.case in seen:
            where = f"{path}:{line}"
            raise VerdictFileError(
                f"{where}: case {row.case!r} stands on line {seen[row.case]} too", remedy=REMEDY
            )
        seen[row.case] = line
    if not 0 <= head.capacity < 1 << 63:
        raise VerdictFileError(f"{path}:{number}: capacity {head.capacity}", remedy=REMEDY)
    return FieldVerdicts(head, rows, hashlib.sha256(data).hexdigest(), extra)


def _objects(path: Path, data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
            torn = number == len(lines)
            what = "the last line stops in the middle" if torn else str(error)
            raise VerdictFileError(f"{path}:{number}: {what}", remedy=REMEDY) from error
        refuse_doubled_keys(path, number, line, REMEDY)
        if not isinstance(value, dict):
            raise VerdictFileError(f"{path}:{number}: no JSON object", remedy=REMEDY)
        yield number, value


def _convert(path: Path, number: int, value: dict[str, Any], kind: type[T], extra: dict[str, str]) -> T:
    try:
        converted = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise VerdictFileError(f"{path}:{number}: {error}", remedy=REMEDY) from error
    known = {field.name for field in msgspec.structs.fields(kind)}  # type: ignore[arg-type]
    unknown = {key: item for key, item in value.items() if key not in known}
    if unknown:
        extra[f"line {number}"] = msgspec.json.encode(unknown).decode()
    return converted


def _row(path: Path, number: int, value: dict[str, Any], extra: dict[str, str]) -> FieldRow:
    row = _convert(path, number, value, FieldRow, extra)
    for problem in _problems(row):
        raise VerdictFileError(f"{path}:{number}: row {row.row[:80]!r} {problem}", remedy=REMEDY)
    return row


def _problems(row: FieldRow) -> Iterator[str]:
    """What contradicts itself in a row; a file of the field is believed in no other way."""
    numbers = {key: getattr(row, key) for key in NUMBERS}
    if not row.case or not row.row.isprintable():
        yield "has no usable name"
    if not row.q_lens or min(row.q_lens) < 0:
        yield f"has query lengths {row.q_lens}"
    named = _lengths_in(row.case)
    if named is not None and list(named) != row.q_lens:
        yield f"holds query lengths {row.q_lens}"
    if any(value is not None and value < 0 for value in numbers.values()):
        yield "has a negative distance"
    if (
        isinstance(row.checks, dict)
        and row.ok
        and (failed := [k for k, v in row.checks.items() if v is False])
    ):
        yield f"calls itself ok although {', '.join(failed)} is false"
    if row.breach_state_after is not None:
        count = row.breach_state_after.get("count")
        if type(count) is not int or (row.ok and count < 1):
            yield f"has a breach state with count {count!r}"
        if given := [key for key, number in numbers.items() if number is not None]:
            yield f"is a breach row and gives {', '.join(given)}"
    elif lacking := [k for k in ("reasons_2d", "reasons_3d", *NUMBERS) if getattr(row, k) is None]:
        yield f"lacks {', '.join(lacking)}; only a row with breach_state_after may"


def head_of(verdicts: FieldVerdicts, lane: str, started: str) -> RunHead:
    """The head of the records: whose they are, and everything the file says about its origin."""
    provenance = {"file": verdicts.sha256, "declared": _text(verdicts.head.declared)}
    provenance |= {f"field:{key}": _text(value) for key, value in verdicts.head.provenance.items()}
    provenance |= verdicts.extra
    return RunHead(
        schema=SCHEMA_VERSION,
        run=f"import-{verdicts.sha256[:16]}",
        lane=lane,
        suite="oracle",
        started=started,
        subject=Subject(arm="field", series_hash="not published"),
        conditions={"lane": lane},
        provenance=provenance,
    )


def records_of(verdicts: FieldVerdicts) -> list[Record]:
    """One record per value; what a row does not have is not invented."""
    records = [Record("declared", "capacity", verdicts.head.capacity, "tokens")]
    for row in verdicts.rows:
        records.append(Record(row.case, "ok", row.ok, "bool"))
        for key, metric in (("reasons_2d", "reasons_flag0"), ("reasons_3d", "reasons_flag1")):
            reasons = getattr(row, key)
            if reasons is not None:
                text = reasons if isinstance(reasons, str) else ",".join(reasons)
                records.append(Record(row.case, metric, text, "name"))
        for key, metric in NUMBERS.items():
            value = getattr(row, key)
            if value is not None:
                records.append(Record(row.case, metric, value, "abs"))
        for key, value in (row.breach_state_after or {}).items():
            if isinstance(value, bool | int | float | str):
                records.append(Record(row.case, f"breach_{key}", value, "name"))
    return records


def field_lines(head: RunHead, records: Iterable[Record], ok_cases: Container[str]) -> bytes:
    """Our records as a verdict file of the field: every case that has query lengths in its name.

    Args:
        head: whose records they are.
        records: of one run of the oracle.
        ok_cases: the cases that the gate found right; every other row says that it is not.
    """
    by_case: dict[str, dict[str, Any]] = {}
    for record in records:
        if not record.control and QUERY_LENGTHS.search(record.case):
            by_case.setdefault(record.case, {})[record.metric] = record.value
    first = {
        "provenance": head.provenance | {"arm": head.subject.arm, "series_hash": head.subject.series_hash},
        "declared": {"conditions": head.conditions},
        "capacity": next((m["first_declared"] for m in by_case.values() if "first_declared" in m), None),
        "seq_threshold_3D": DECLARED_THRESHOLD,
    }
    rows = [_field_row(case, metrics, case in ok_cases) for case, metrics in by_case.items()]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in (first, *rows))


def _field_row(case: str, metrics: dict[str, Any], ok: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "row": case,
        "q_lens": list(_lengths_in(case) or ()),
        "reasons_2d": metrics.get("reasons_flag0"),
        "reasons_3d": metrics.get("reasons_flag1"),
        "checks": {name: value for name, value in metrics.items() if isinstance(value, bool)},
        "ok": ok,
    }
    if "count_after_second" not in metrics:
        return row | {key: metrics.get(ours) for key, ours in NUMBERS.items()}
    state = {"count": metrics["count_after_second"], "degraded": metrics.get("degraded")}
    first = {"tokens": metrics.get("first_tokens"), "declared": metrics.get("first_declared")}
    # The sticky flag is part of the state; as a check it would read as a failure of the healthy rows.
    row["checks"].pop("degraded", None)
    return row | {"breach_state_after": state | {"first": first}}


def _lengths_in(case: str) -> tuple[int, ...] | None:
    match = QUERY_LENGTHS.search(case)
    return tuple(int(part) for part in match[1].split(",")) if match else None


def _text(value: Any) -> str:  # noqa: ANN401 - whatever a file of the field holds
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
