"""Strict reading and canonical writing of results and baselines."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.errors import GateError
from ci.results import jsonl
from ci.results.files import FileMissingError
from ci.results.records import Acceptance, BaselineHead, BaselineRecord, Record, RunHead, Subject

HEAD = RunHead(
    schema=1,
    run="r1",
    lane="cpu",
    suite="property",
    started="2026-09-01T10:00:00Z",
    subject=Subject(arm="patched", series_hash="ab"),
    conditions={"lane": "cpu", "torch": "2.13.0"},
)
HEAD_LINE = jsonl.encode(HEAD, [])
LINE = b'{"kind":"record","case":"grid","metric":"violations","value":0,"unit":"vectors"}\n'


def _read(tmp_path: Path, data: bytes) -> jsonl.Results:
    path = tmp_path / "records.jsonl"
    path.write_bytes(data)
    return jsonl.read_results(path)


def test_results_round_trip(tmp_path: Path) -> None:
    """What is written is read back equal, in natural order."""
    records = [
        Record("b10", "m", 1, "x"),
        Record("b2", "n", 0.1, "x"),
        Record("b2", "m", None, "x", reason="line not found"),
        Record("a|é\u202f", "m", True, "bool", control=True),
        Record("c", "m", "text", "1", printed="2.5"),
    ]
    path = tmp_path / "records.jsonl"
    jsonl.write_results(path, HEAD, records)
    results = jsonl.read_results(path)
    assert results.head == HEAD
    assert [(r.case, r.metric) for r in results.records] == [
        ("a|é\u202f", "m"),
        ("b2", "m"),
        ("b2", "n"),
        ("b10", "m"),
        ("c", "m"),
    ]
    assert sorted(results.records, key=jsonl.record_order) == sorted(records, key=jsonl.record_order)


def test_writing_again_gives_the_same_bytes() -> None:
    """Order of records and of head maps does not reach the file."""
    one, two = Record("a", "m", 1.5, "s"), Record("b", "m", 2, "s")
    swapped = RunHead(
        schema=1,
        run="r1",
        lane="cpu",
        suite="property",
        started=HEAD.started,
        subject=HEAD.subject,
        conditions={"torch": "2.13.0", "lane": "cpu"},
    )
    assert jsonl.encode(HEAD, [one, two]) == jsonl.encode(swapped, [two, one])


def test_numbers_take_the_shortest_exact_digits() -> None:
    """0.1 is written as 0.1, a whole float keeps its point, an int gets none."""
    data = jsonl.encode(
        HEAD, [Record("a", "m", 0.1, "s"), Record("b", "m", 5.0, "s"), Record("c", "m", 5, "s")]
    )
    assert [line.split(b'"value":')[1].split(b",")[0] for line in data.splitlines()[1:]] == [
        b"0.1",
        b"5.0",
        b"5",
    ]


def test_baseline_round_trip(tmp_path: Path) -> None:
    """A baseline keeps who accepted a value, when and why."""
    accepted = Acceptance(date="2026-09-01", by="A", why="first run")
    head = BaselineHead(
        schema=1, lane="cpu", suite="property", subject=HEAD.subject, conditions=HEAD.conditions
    )
    path = tmp_path / "property.jsonl"
    jsonl.write_baseline(path, head, [BaselineRecord("grid", "violations", 0, "vectors", accepted)])
    baseline = jsonl.read_baseline(path)
    assert baseline.head == head
    assert baseline.records[0].accepted == accepted


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_unwritable_numbers_are_refused(value: float) -> None:
    """NaN would be written as null, which means unread."""
    with pytest.raises(jsonl.UnwritableRecordError, match=r"case 'a', metric 'm'"):
        jsonl.encode(HEAD, [Record("a", "m", value, "s")])


def test_lone_surrogate_is_refused_on_writing() -> None:
    """A text that UTF-8 cannot hold is an error that names the record."""
    with pytest.raises(jsonl.UnwritableRecordError, match="surrogate"):
        jsonl.encode(HEAD, [Record("a", "m", "\ud83d", "s")])


def test_doubled_key_is_refused_on_writing() -> None:
    """The same case and metric cannot be written twice."""
    with pytest.raises(jsonl.UnwritableRecordError, match="twice"):
        jsonl.encode(HEAD, [Record("a", "m", 1, "s"), Record("a", "m", 2, "s")])


def test_missing_file_is_told_apart(tmp_path: Path) -> None:
    """No file is another failure than an empty one."""
    with pytest.raises(FileMissingError):
        jsonl.read_results(tmp_path / "none.jsonl")


@pytest.mark.parametrize("data", [b"", b"\n \r\n", b"\xef\xbb\xbf"])
def test_empty_file_is_an_error(tmp_path: Path, data: bytes) -> None:
    """Zero bytes, or blank lines only, are no result."""
    with pytest.raises(jsonl.RecordsEmptyError, match="empty"):
        _read(tmp_path, data)


def test_torn_last_line_names_its_line(tmp_path: Path) -> None:
    """A last line that stops in the middle is torn, not just malformed."""
    with pytest.raises(jsonl.TornRecordsError, match=r"records\.jsonl:3: the last line stops"):
        _read(tmp_path, HEAD_LINE + LINE + LINE[:30])


def test_whole_last_line_needs_no_newline(tmp_path: Path) -> None:
    """A last line that parses is whole even without its newline."""
    assert len(_read(tmp_path, HEAD_LINE + LINE[:-1]).records) == 1


def test_glued_line_is_malformed(tmp_path: Path) -> None:
    """A record appended behind a torn line does not hide it."""
    with pytest.raises(jsonl.MalformedRecordError, match=r":2: "):
        _read(tmp_path, HEAD_LINE + LINE[:30] + LINE)


def test_bom_crlf_and_blank_lines_are_read(tmp_path: Path) -> None:
    """A byte order mark, CRLF and blank lines change nothing."""
    data = b"\xef\xbb\xbf" + HEAD_LINE.replace(b"\n", b"\r\n") + b"\r\n  \r\n" + LINE.replace(b"\n", b"\r\n")
    assert len(_read(tmp_path, data).records) == 1


def test_other_line_ends_inside_a_text_do_not_split(tmp_path: Path) -> None:
    """U+2028 and U+0085 end a line for splitlines(), not for this reader."""
    line = LINE.replace(b'"vectors"', '"a\u2028b\x85c"'.encode())
    assert _read(tmp_path, HEAD_LINE + line).records[0].unit == "a\u2028b\x85c"


MALFORMED = {
    "nul-hole": b"\0\0\0" + LINE,
    "bad-utf8": LINE.replace(b"vectors", b"\xff\xfe"),
    "lone-surrogate": LINE.replace(b"vectors", b"\\ud83d"),
    "doubled-key": LINE.replace(b'"value":0', b'"value":0,"value":1'),
    "nan": LINE.replace(b":0,", b":NaN,"),
    "infinity": LINE.replace(b":0,", b":-Infinity,"),
    "beyond-float": LINE.replace(b":0,", b":1e999,"),
    "65-bit-int": LINE.replace(b":0,", b":9223372036854775808,"),
    "5000-digit-int": LINE.replace(b":0,", b":" + b"9" * 5000 + b","),
    "deep-nesting": LINE.replace(b":0,", b":" + b"[" * 100_000 + b"]" * 100_000 + b","),
    "object-value": LINE.replace(b":0,", b':{"a":1},'),
    "number-as-name": LINE.replace(b'"grid"', b"12"),
    "true-as-text": LINE.replace(b'"vectors"', b"true"),
    "int-as-bool": LINE.replace(b"}", b',"control":1}'),
    "unknown-kind": LINE.replace(b'"record"', b'"other"'),
    "unknown-field": LINE.replace(b"}", b',"extra":1}'),
    "missing-field": LINE.replace(b',"unit":"vectors"', b""),
    "no-object": b"[1]\n",
    "two-values": b"{}{}\n",
    "control-character": LINE.replace(b"grid", b"gr\\u001bid"),
    "empty-name": LINE.replace(b"grid", b""),
    "null-without-reason": LINE.replace(b":0,", b":null,"),
    "long-line": LINE.replace(b"vectors", b"v" * (1 << 18)),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_line_names_file_and_line(tmp_path: Path, name: str) -> None:
    """Each kind of bad line is refused with its file and line, even with good lines around it."""
    other = LINE.replace(b"grid", b"other")
    with pytest.raises(jsonl.MalformedRecordError, match=r"records\.jsonl:3: ") as caught:
        _read(tmp_path, HEAD_LINE + other + MALFORMED[name] + other)
    assert caught.value.remedy


def test_doubled_key_deep_in_the_head_is_found(tmp_path: Path) -> None:
    """A condition given twice is refused, since a parser would keep the last in silence."""
    data = HEAD_LINE.replace(b'"torch":"2.13.0"', b'"torch":"2.13.0","torch":"2.12.0"')
    with pytest.raises(jsonl.MalformedRecordError, match=r":1: key 'torch' is given twice"):
        _read(tmp_path, data)


def test_other_spelling_of_the_same_record_is_read(tmp_path: Path) -> None:
    """Spaces and another key order are fine when no key is doubled."""
    data = HEAD_LINE + b'{ "unit": "s", "metric": "m", "case": "a", "value": 1e0, "kind": "record" }\n'
    assert _read(tmp_path, data).records[0].value == 1.0


def test_doubled_record_is_an_error(tmp_path: Path) -> None:
    """The second record of one case and metric is refused, also when both agree."""
    with pytest.raises(jsonl.DuplicateRecordError, match=r":3: case 'grid', metric 'violations'"):
        _read(tmp_path, HEAD_LINE + LINE + LINE)


HEADS = {
    "none": LINE,
    "second": HEAD_LINE + HEAD_LINE,
    "late": LINE + HEAD_LINE,
    "schema": HEAD_LINE.replace(b'"schema":1', b'"schema":2'),
}


@pytest.mark.parametrize("name", HEADS)
def test_head_must_stand_once_and_first(tmp_path: Path, name: str) -> None:
    """No head, two heads, a late head and another schema are refused."""
    with pytest.raises(jsonl.HeadError):
        _read(tmp_path, HEADS[name])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"lane":"cpu","suite"', b'"lane":"../cpu","suite"'),
        (b'"suite":"property"', b'"suite":""'),
        (b'"run":"r1"', b'"run":""'),
        (b"10:00:00Z", b"10:00:00+02:00"),
        (b"2026-09-01T10:00:00Z", b"yesterday"),
    ],
)
def test_head_fields_are_checked(tmp_path: Path, old: bytes, new: bytes) -> None:
    """Names that become paths, and times, are checked where they are read."""
    assert old in HEAD_LINE
    with pytest.raises(jsonl.MalformedRecordError, match=r":1: "):
        _read(tmp_path, HEAD_LINE.replace(old, new))


def test_baseline_is_no_results_file(tmp_path: Path) -> None:
    """A baseline put in place of results is refused."""
    head = BaselineHead(schema=1, lane="cpu", suite="property", subject=HEAD.subject, conditions={})
    with pytest.raises(jsonl.MalformedRecordError, match=r":1: "):
        _read(tmp_path, jsonl.encode(head, []))


def test_records_are_streamed(tmp_path: Path) -> None:
    """The first record is there before a later bad line is reached."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(HEAD_LINE + LINE + b"broken\n")
    with jsonl.open_results(path) as (head, records):
        assert head == HEAD
        assert next(records).case == "grid"
        with pytest.raises(jsonl.MalformedRecordError, match=r":3: "):
            next(records)


@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_damage_is_a_declared_error(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes, at: int
) -> None:
    """Bytes put anywhere into a file give a result or a declared error, never another exception."""
    path = tmp_path_factory.getbasetemp() / "fuzz.jsonl"
    data = HEAD_LINE + LINE
    path.write_bytes(data[:at] + junk + data[at:])
    with contextlib.suppress(GateError):
        jsonl.read_results(path)
