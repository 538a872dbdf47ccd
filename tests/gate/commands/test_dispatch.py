from __future__ import annotations

from typing import Any

import pytest

from ci import cli
from ci.commands import dispatch
from ci.lanes.github import GitHub


def test_nothing_is_started_where_no_runner_is_online(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 at once, and GitHub was not asked to start anything."""
    monkeypatch.setenv("GITHUB_REPOSITORY", "us/it")
    monkeypatch.setattr(GitHub, "online_runners", lambda self: ())
    monkeypatch.setattr(GitHub, "_send", lambda *_: pytest.fail("started"))
    assert cli.main(["dispatch", "--lane", "rtx3090", "--suite", "oracle"]) == 2
    assert "is online: the job would wait for a day" in capsys.readouterr().err


@pytest.mark.parametrize("lane", ["cpu", "rtx2080"])
def test_a_lane_without_a_machine_of_ours_is_refused(lane: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU lane runs here, an unknown one nowhere."""
    monkeypatch.setenv("GITHUB_REPOSITORY", "us/it")
    assert cli.main(["dispatch", "--lane", lane]) == 2


def test_a_run_without_results_is_no_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """However it ended: what was asked for is missing."""
    monkeypatch.setenv("FORKPROOF_OUT", str(tmp_path))
    monkeypatch.setattr(dispatch, "fetch_run", lambda *_: [])
    assert dispatch.bring_back(GitHub("us/it"), 7, dispatch.chosen(["rtx3090"], [])) == 2


def test_only_what_was_asked_for_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever asks for one suite gets a verdict on that one."""
    monkeypatch.setenv("FORKPROOF_OUT", str(tmp_path))
    monkeypatch.setattr(dispatch, "fetch_run", lambda *_: [])
    dispatch.bring_back(GitHub("us/it"), 7, dispatch.chosen(["rtx3090"], ["oracle"]))
    out = capsys.readouterr().out
    assert "oracle" in out
    assert "membudget" not in out
