"""Importing a verdict file from the command line: records, a table, and an exit code that agrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci import cli
from ci.commands import import_verdicts
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


@pytest.mark.parametrize(
    ("row", "code", "word"),
    [(ROW, 0, "pass"), (ROW | {"ok": False}, 1, "regressed"), ({"row": "x"}, 2, "no")],
)
def test_exit_code_and_last_line_agree(
    row: dict[str, Any], code: int, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Good rows pass, a row the file calls bad regresses, a damaged file is no verdict and writes nothing."""
    source, target = tmp_path / "v.jsonl", tmp_path / "to" / "oracle.jsonl"
    source.write_text("\n".join(map(json.dumps, (HEAD, row))) + "\n")
    line = ["import-verdicts", str(source), "--lane", "rtx4090", "--to", str(target)]
    assert cli.main(line, [import_verdicts]) == code
    last = "".join(capsys.readouterr()).strip().splitlines()[-1]
    assert last.startswith(f"verdict: {word}")
    assert f"(exit {code})" in last
    assert target.exists() == (code != 2)
    if code == 0:
        assert read_results(target).head.lane == "rtx4090"


def test_a_lane_is_a_plain_name(tmp_path: Path) -> None:
    """It becomes a folder name."""
    assert cli.main(["import-verdicts", str(tmp_path / "v"), "--lane", "../x"], [import_verdicts]) == 2
