from __future__ import annotations

from pathlib import Path

import pytest

from ci import cli
from ci.commands import drift
from ci.errors import ExitCode
from ci.results.drift import HunkFate, HunkState, PatchFate, PatchState, ReleaseFate
from ci.results.jsonl import read_results
from ci.stack.pin import PIN
from ci.stack.radar import Seen
from ci.stack.ranges import Counted


def fate(version: str, state: HunkState = HunkState.EXACT, problem: str | None = None) -> ReleaseFate:
    """A release on which a one-hunk patch has this state."""
    hunks = (HunkFate("vllm/m.py", 1, state, 1),)
    kind = PatchState.APPLIES if state is HunkState.EXACT else PatchState.CONFLICTS
    patches = () if problem else (PatchFate("a.patch", kind, hunks),)
    return ReleaseFate(1, version, patches=patches, problem=problem)


CLEAN, RED, UNREAD = fate(PIN.vllm), fate("99.0.0", HunkState.CONFLICT), fate("99.0.0", problem="no wheel")


@pytest.mark.parametrize(
    ("fates", "strict", "code"),
    [
        ([CLEAN], False, ExitCode.PASS),
        ([CLEAN, RED], False, ExitCode.PASS),
        ([CLEAN, RED], True, ExitCode.REGRESSED),
        ([CLEAN, UNREAD], False, ExitCode.NO_VERDICT),
        ([fate(PIN.vllm, HunkState.CONFLICT)], False, ExitCode.REGRESSED),
    ],
)
def test_the_code_and_the_last_line(
    fates: list[ReleaseFate], strict: bool, code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    """A later conflict is news, one with the pin a regression, an unread release no verdict."""
    assert drift.conclude(fates, strict=strict) is code
    assert capsys.readouterr().out.rstrip().endswith(f"(exit {int(code)})")


def test_reports_are_written_and_the_records_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Page, data and records lie in the output folder; the page is appended to the summary."""
    monkeypatch.setenv("FORKPROOF_OUT", str(tmp_path / "out"))
    monkeypatch.setenv("FORKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(
        drift, "scan", lambda *_: tuple(Seen(one, Counted(5, 1), cached=False) for one in (CLEAN, RED))
    )
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    assert cli.main(["drift", "--release", "99.0.0", "--summary", str(summary)]) == 0
    results = read_results(tmp_path / "out" / "drift" / "records.jsonl")
    assert (results.head.suite, results.head.subject.arm) == ("drift", "packed")
    counts = {(r.case, r.metric): r.value for r in results.records}
    assert counts["99.0.0/a.patch", "conflicts"] == 1
    assert counts[f"{PIN.vllm}/a.patch", "conflicts"] == 0
    page = (tmp_path / "out" / "drift" / "drift.md").read_text()
    assert summary.read_text() == "before\n" + page
    assert "0.0 MB in 2 requests" in capsys.readouterr().out


def test_a_release_that_could_not_be_judged_is_recorded_as_unread() -> None:
    """No number is made up for it."""
    (record,) = drift.records([UNREAD])
    assert (record.value, record.reason) == (None, "no wheel")
