from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ci import cli
from ci.commands.matrix import split_words, with_changes
from ci.lanes.event import Event, EventKind


def payload(path: Path, head: str) -> Path:
    """A pull request from the repository ``head``, with the label."""
    pull = {"head": {"repo": {"full_name": head}}, "labels": [{"name": "gpu"}]}
    path.write_text(json.dumps({"pull_request": pull, "repository": {"full_name": "us/it"}}))
    return path


def outputs(path: Path) -> dict[str, Any]:
    """The two outputs of the step."""
    lines = path.read_text().splitlines()
    return {
        lines[0].partition("<<")[0]: json.loads(lines[1]),
        lines[3].partition("<<")[0]: json.loads(lines[4]),
    }


@pytest.mark.parametrize(
    ("head", "where", "lanes"),
    [
        ("us/it", "self-hosted", ["rtx3090", "rtx4090"]),
        ("us/it", "hosted", ["cpu"]),
        ("them/it", "self-hosted", []),
        ("them/it", "hosted", ["cpu"]),
    ],
)
def test_the_step_hands_over_its_cells(
    head: str, where: str, lanes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each workflow gets its own lanes; one without any is told so, since an empty matrix fails."""
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(payload(tmp_path / "event.json", head)))
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "out"))
    assert cli.main(["matrix", "--github", "--where", where]) == 0
    found = outputs(tmp_path / "out")
    assert list(dict.fromkeys(cell["lane"] for cell in found["cells"])) == lanes
    assert found["any"] is bool(lanes)


def test_the_plan_is_written_with_its_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report later knows what was due and what was left out, and why."""
    file = payload(tmp_path / "event.json", "them/it")
    assert (
        cli.main(["matrix", "--event", "pull_request", "--payload", str(file), "--json", str(tmp_path / "p")])
        == 0
    )
    plan = json.loads((tmp_path / "p").read_text())
    assert [cell["lane"] for cell in plan["cells"]] == ["cpu"]
    assert {out["lane"]: out["why"] for out in plan["left_out"]}["rtx3090"] == "needs a maintainer"
    assert "needs a maintainer" in capsys.readouterr().out


def test_outside_a_workflow_nothing_is_guessed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without an event, or without GitHub's variables, there is no plan."""
    monkeypatch.delenv("GITHUB_EVENT_PATH", raising=False)
    assert cli.main(["matrix"]) == 2
    monkeypatch.setenv("GITHUB_EVENT_NAME", "push")
    assert cli.main(["matrix", "--github"]) == 2
    assert "GITHUB_EVENT_PATH is not set" in capsys.readouterr().err


def test_what_changed_comes_from_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names with spaces and new lines arrive whole; a commit that git does not know leaves it open."""
    monkeypatch.chdir(tmp_path)

    def git(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", *identity, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    base = git("rev-parse", "HEAD")
    (tmp_path / "a b\nc.md").write_text("x")
    git("add", ".")
    git("commit", "-q", "-m", "two")
    head = git("rev-parse", "HEAD")
    assert with_changes(Event(EventKind.PUSH, base=base, head=head)).changed == ("a b\nc.md",)
    assert with_changes(Event(EventKind.PUSH, base="0a" * 20, head=head)).changed is None


def test_a_form_field_holds_several_names() -> None:
    """A manual run's field is one text; an empty one chooses nothing."""
    assert split_words(["rtx3090, rtx4090", "", "cpu"]) == ["rtx3090", "rtx4090", "cpu"]
