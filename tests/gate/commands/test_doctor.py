from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ci import cli
from ci.commands import doctor
from ci.lanes.doctor import Finding, State


@pytest.mark.parametrize(("state", "code"), [(State.OK, 0), (State.WARN, 0), (State.FAIL, 2)])
def test_only_a_failed_check_is_red(
    state: State, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning is shown with its remedy and stops nothing; the last line counts all three."""
    finding = Finding("disk", state, "5 GiB free", "make room")
    monkeypatch.setattr(doctor, "read_facts", lambda *_: None)
    monkeypatch.setattr(doctor, "examine", lambda *_: [Finding("git", State.OK, "found"), finding])
    assert cli.main(["doctor", "--lane", "cpu"]) == code
    out = capsys.readouterr().out
    assert ("remedy: make room" in out) is (state is not State.OK)
    assert out.splitlines()[-1].endswith(f"(exit {code})")
    assert cli.main(["doctor", "--lane", "cpu", "--json"]) == code
    data = json.loads(capsys.readouterr().out)
    assert data["exit_code"] == code
    assert data["findings"][1] == {
        "check": "disk", "state": state.value, "text": "5 GiB free", "remedy": "make room",
    }  # fmt: skip


def test_a_lane_that_the_matrix_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    """Its lanes are named."""
    assert cli.main(["doctor", "--lane", "rtx2080"]) == 2
    assert "rtx3090" in capsys.readouterr().err


def test_in_a_bundle_the_host_s_own_interpreter_is_examined() -> None:
    """Its torch is the host's; in a checkout it is the one that the session installed."""
    assert doctor.stack_python({"FORKPROOF_SITE": "/bundle/site"}) == Path(sys.executable)
    assert doctor.stack_python({}) == doctor.ROOT / ".nox" / "build" / "bin" / "python"
