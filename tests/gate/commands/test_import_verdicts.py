"""Importing a verdict file from the command line: records, a table, and an exit code that agrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci import cli
from ci.commands import import_verdicts
from ci.results.field_verdicts import PUBLISHED
from ci.results.jsonl import read_results

HEAD: dict[str, Any] = {"provenance": {}, "declared": "x", "capacity": 32, "seq_threshold_3D": 32}
ROW: dict[str, Any] = {
    "row": "row0-decode-[1]",
    "q_lens": [1],
    "reasons_2d": "NONE(3d eligible)",
    "reasons_3d": "NONE(3d eligible)",
    "max_abs_diff_2d_vs_3d": 0.0,
    "ref_max_abs_2d": 0.0312,
    "ref_max_abs_3d": 0.0312,
    "out_max_abs": 17.25,
    "checks": {},
    "ok": True,
}


def published() -> list[dict[str, Any]]:
    """A row for every case of the check."""
    rows = []
    for name in PUBLISHED:
        row = ROW | {"row": name, "q_lens": json.loads(name[name.index("[") :])}
        if name.startswith("breach"):
            row = {key: row[key] for key in ("row", "q_lens", "checks", "ok", "reasons_3d")}
            row |= {"breach_state_after": {"count": 2}}
        rows.append(row)
    return rows


BAD = published()
BAD[3] = BAD[3] | {"ok": False}


@pytest.mark.parametrize(
    ("rows", "code", "word"),
    [
        (published(), 0, "pass"),
        (BAD, 1, "regressed"),
        (published()[:-1], 2, "missing"),
        ([{"row": "x"}], 2, "no"),
    ],
)
def test_exit_code_and_last_line_agree(
    rows: list[dict[str, Any]],
    code: int,
    word: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All rows good pass, one the file calls bad regresses, a lost or damaged row is no verdict."""
    source, target = tmp_path / "v.jsonl", tmp_path / "to" / "oracle.jsonl"
    source.write_text("\n".join(map(json.dumps, (HEAD, *rows))) + "\n")
    line = ["import-verdicts", str(source), "--lane", "rtx4090", "--to", str(target)]
    assert cli.main(line, [import_verdicts]) == code
    last = "".join(capsys.readouterr()).strip().splitlines()[-1]
    assert last.startswith(f"verdict: {word}")
    assert f"(exit {code})" in last
    assert target.exists() == (word != "no")
    if code == 0:
        assert read_results(target).head.lane == "rtx4090"


def test_a_lane_is_a_plain_name(tmp_path: Path) -> None:
    """It becomes a folder name."""
    assert cli.main(["import-verdicts", str(tmp_path / "v"), "--lane", "../x"], [import_verdicts]) == 2


def test_a_target_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """Exit 2 and a remedy, no traceback."""
    source = tmp_path / "v.jsonl"
    source.write_text("\n".join(map(json.dumps, (HEAD, *published()))) + "\n")
    (tmp_path / "file").write_text("")
    line = ["import-verdicts", str(source), "--lane", "rtx4090", "--to", str(tmp_path / "file" / "x" / "y")]
    assert cli.main(line, [import_verdicts]) == 2
