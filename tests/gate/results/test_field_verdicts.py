"""Verdict files of the field: what they hold becomes records, what is damaged is named by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci.results.field_verdicts import field_lines, head_of, read_field_verdicts, records_of
from ci.results.jsonl import RecordsError
from ci.results.records import Record

HEAD: dict[str, Any] = {
    "provenance": {"triton_attn.py": "aa" * 32, "gpu": {"name": "a card"}},
    "declared": {"max_num_seqs": 2},
    "capacity": 32,
    "seq_threshold_3D": 32,
}
ROW: dict[str, Any] = {
    "row": "row4-units-[16,1]",
    "q_lens": [16, 1],
    "reasons_2d": ["mq_but_flag_off"],
    "reasons_3d": "NONE(3d eligible)",
    "max_abs_diff_2d_vs_3d": 0.0078125,
    "ref_max_abs_2d": 0.0314,
    "ref_max_abs_3d": 0.0314,
    "out_max_abs": 21.5,
    "checks": {"finite": True},
    "ok": True,
    "a_key_of_tomorrow": 1,
}
BREACH: dict[str, Any] = {
    "row": "row8-breach-[16,16,16]",
    "q_lens": [16, 16, 16],
    "reasons_3d": "q_token_capacity_failed",
    "checks": {},
    "ok": True,
    "breach_state_after": {"count": 2, "degraded": True, "first": {"tokens": 48}},
}


def write(tmp_path: Path, *lines: Any, end: str = "\n") -> Path:
    """A verdict file of these lines."""
    path = tmp_path / "verdicts.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + end)
    return path


def test_rows_become_records_under_our_names(tmp_path: Path) -> None:
    """The row number goes, numbers keep their layer, and a breach row has a state and no differences."""
    verdicts = read_field_verdicts(write(tmp_path, HEAD, ROW, BREACH))
    found = {(r.case, r.metric): r.value for r in records_of(verdicts)}
    assert found == {
        ("declared", "capacity"): 32,
        ("units-[16,1]", "ok"): True,
        ("units-[16,1]", "reasons_flag0"): "mq_but_flag_off",
        ("units-[16,1]", "reasons_flag1"): "NONE(3d eligible)",
        ("units-[16,1]", "launcher_diff_2d_3d"): 0.0078125,
        ("units-[16,1]", "launcher_ref_flag0"): 0.0314,
        ("units-[16,1]", "launcher_ref_flag1"): 0.0314,
        ("units-[16,1]", "launcher_out_max"): 21.5,
        ("breach-[16,16,16]", "ok"): True,
        ("breach-[16,16,16]", "reasons_flag1"): "q_token_capacity_failed",
        ("breach-[16,16,16]", "breach_count"): 2,
        ("breach-[16,16,16]", "breach_degraded"): True,
    }


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    """Some editors leave one."""
    path = write(tmp_path, HEAD, ROW)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_field_verdicts(path).rows) == 1


def test_the_head_keeps_where_it_came_from(tmp_path: Path) -> None:
    """Provenance of the file, its own hash, and keys that this reader does not know."""
    verdicts = read_field_verdicts(write(tmp_path, HEAD, ROW))
    head = head_of(verdicts, "rtx4090", "2026-01-01T00:00:00Z")
    assert head.provenance["field:triton_attn.py"] == "aa" * 32
    assert head.provenance["field:gpu"] == '{"name":"a card"}'
    assert head.provenance["file"] == verdicts.sha256
    assert head.provenance["line 2"] == '{"a_key_of_tomorrow":1}'
    assert head.conditions == {"lane": "rtx4090"}


def test_our_records_go_out_as_a_file_that_reads_back(tmp_path: Path) -> None:
    """The same numbers come back; a row is ok where the gate said so, and no case is left out."""
    verdicts = read_field_verdicts(write(tmp_path, HEAD, ROW))
    state = {"count_after_second": 2, "degraded": True, "first_tokens": 48, "first_declared": 32}
    records = [*records_of(verdicts), Record("cache-write", "value_steps", 0.5, "steps")]
    records += [Record("breach-[16,16,16]", metric, value, "1") for metric, value in state.items()]
    head = head_of(verdicts, "h200", "2026-01-01T00:00:00Z")
    (tmp_path / "out.jsonl").write_bytes(field_lines(head, records, {"breach-[16,16,16]"}))
    again = read_field_verdicts(tmp_path / "out.jsonl")
    assert [(row.case, row.q_lens, row.ok) for row in again.rows] == [
        ("units-[16,1]", [16, 1], False),
        ("breach-[16,16,16]", [16, 16, 16], True),
    ]
    assert again.head.capacity == 32
    assert again.rows[1].breach_state_after is not None
    assert again.rows[1].breach_state_after["count"] == 2
    assert again.rows[0].max_abs_diff_2d_vs_3d == ROW["max_abs_diff_2d_vs_3d"]
    assert again.rows[0].ref_max_abs_3d == ROW["ref_max_abs_3d"]


@pytest.mark.parametrize(
    ("lines", "end", "message"),
    [
        ((HEAD, ROW, '{"row": "row5-x", "q_le'), "", r"verdicts\.jsonl:3: the last line stops"),
        ((HEAD, {k: v for k, v in ROW.items() if k != "ok"}), "\n", r":2: .*missing required field `ok`"),
        ((HEAD, {k: v for k, v in ROW.items() if k != "out_max_abs"}), "\n", r":2: .* lacks out_max_abs"),
        ((HEAD, json.dumps(ROW).replace("21.5", "NaN")), "\n", r":2: "),
        ((HEAD, json.dumps(ROW)[:-1] + ', "ok": false}'), "\n", r":2: key 'ok' is given twice"),
        ((HEAD, ROW | {"q_lens": "16"}), "\n", r":2: .*array"),
        (({k: v for k, v in HEAD.items() if k != "capacity"}, ROW), "\n", r":1: .*capacity"),
        ((HEAD, ROW, ROW), "\n", r":3: case 'units-\[16,1\]' stands on line 2 too"),
        ((HEAD, ROW | {"checks": {"finite": False}}), "\n", r":2: .*ok although finite is false"),
        ((HEAD, ROW | {"breach_state_after": {}}), "\n", r":2: .*breach state with count None"),
        ((HEAD, BREACH | {"out_max_abs": 1.0}), "\n", r":2: .*breach row and gives out_max_abs"),
        ((HEAD, BREACH | {"breach_state_after": {"count": 0}}), "\n", r":2: .*count 0"),
        ((HEAD, ROW | {"ref_max_abs_3d": -0.1}), "\n", r":2: .*negative distance"),
        ((HEAD, ROW | {"q_lens": [16, 2]}), "\n", r":2: .*query lengths \[16, 2\]"),
        ((HEAD, ROW | {"q_lens": []}), "\n", r":2: .*query lengths \[\]"),
        ((HEAD, ROW | {"row": "row4-\x1b[16,1]"}), "\n", r":2: .*no usable name"),
        ((HEAD | {"capacity": 1 << 63}, ROW), "\n", r":1: capacity"),
        ((HEAD,), "\n", r":1: a head and no case"),
        (("",), "", r"the file is empty"),
        ((HEAD, "[1]"), "\n", r":2: no JSON object"),
    ],
)
def test_damage_is_named_by_line(tmp_path: Path, lines: tuple[Any, ...], end: str, message: str) -> None:
    """Torn, missing, not finite, doubled, mistyped, empty: each stops the import and says where."""
    with pytest.raises(RecordsError, match=message):
        read_field_verdicts(write(tmp_path, *lines, end=end))
