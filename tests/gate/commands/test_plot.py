"""The command reads records, accepted or of the last run, and writes the picture."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ci.cli import main
from ci.results.jsonl import read_baseline, write_results
from ci.results.records import Record, RunHead, Subject

ROOT = Path(__file__).parents[3]
ACCEPTED = ROOT / "baselines" / "h200" / "kernelbench.jsonl"


def test_accepted_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lane's baseline is drawn, into a folder that need not be there."""
    (tmp_path / "baselines" / "h200").mkdir(parents=True)
    shutil.copy(ACCEPTED, tmp_path / "baselines" / "h200")
    for name in ("plan.toml", "policy.toml"):
        shutil.copy(ROOT / "baselines" / name, tmp_path / "baselines")
    out = tmp_path / "new" / "times.svg"
    options = ("--lane", "h200", "--baselines", str(tmp_path / "baselines"), "--out", str(out))
    assert main(["plot", *options]) == 0
    assert f"arm {read_baseline(ACCEPTED).head.subject.arm}<" in out.read_text(encoding="utf-8")
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("verdict: pass - ")
    assert last.endswith("times.svg (exit 0)")


def test_the_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --last it is the run on disk, whatever is accepted; unasked, it goes where runs go."""
    monkeypatch.setenv("FORKPROOF_OUT", str(tmp_path))
    folder = tmp_path / "runs" / "h200" / "kernelbench"
    folder.mkdir(parents=True)
    head = RunHead(
        schema=1,
        run="r",
        lane="h200",
        suite="kernelbench",
        started="2026-01-02T03:04:05Z",
        subject=Subject("packed", "0" * 64),
        conditions={"lane": "h200"},
    )
    write_results(folder / "records.jsonl", head, [Record("call-24576", "us_3d", 78.5, "us")])
    assert main(["plot", "--lane", "h200", "--last"]) == 0
    assert "arm packed<" in (tmp_path / "kernelbench.svg").read_text(encoding="utf-8")
    options = ("--lane", "h200", "--last", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "x.svg"))
    assert main(["plot", *options]) == 0
    assert (tmp_path / "x.svg").read_bytes() == (tmp_path / "kernelbench.svg").read_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--lane", "cpu"], "one of: h200, rtx3090, rtx4090"),
        (["--lane", "../h200"], "--lane ../h200: kernelbench is not planned there"),
        (["--lane", "rtx4090"], "nox -s kernelbench -- --lane rtx4090"),
        (["--lane", "h200", "--last"], "records.jsonl: no such file"),
    ],
)
def test_nothing_to_read(
    options: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is not there is said with the command that makes it, and nothing is written."""
    monkeypatch.setenv("FORKPROOF_OUT", str(tmp_path))
    out = tmp_path / "times.svg"
    assert main(["plot", *options, "--out", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()
