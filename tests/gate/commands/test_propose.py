from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ci import cli
from ci.commands import propose
from ci.lanes.github import GitHub


def git(*words: str) -> str:
    """git in the folder of the test."""
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A repository with baselines and another file, both changed; what is sent to GitHub is kept."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_REPOSITORY", "us/it")
    git("init", "-q", "-b", "main")
    Path("baselines/cpu").mkdir(parents=True)
    Path("baselines/cpu/pool.jsonl").write_text("old\n")
    Path("other.txt").write_text("old\n")
    git("add", ".")
    git(*propose.IDENTITY, "commit", "-q", "-m", "one")
    sent: list[Any] = []
    monkeypatch.setattr(GitHub, "_send", lambda self, *call: sent.append(call))
    real = propose.git
    monkeypatch.setattr(
        propose, "git", lambda at, words: sent.append(words) if "push" in words else real(at, words)
    )
    return sent


def test_only_baselines_are_proposed(checkout: list[Any]) -> None:
    """New and changed baselines are committed on a branch of their own; another changed file is not."""
    Path("baselines/cpu/pool.jsonl").write_text("new\n")
    Path("baselines/cpu/oracle.jsonl").write_text("new\n")
    Path("other.txt").write_text("new\n")
    assert cli.main(["propose", "--run", "17", "--why", "new driver @someone"]) == 0
    assert git("show", "--name-only", "--format=", "HEAD").split() == [
        "baselines/cpu/oracle.jsonl",
        "baselines/cpu/pool.jsonl",
    ]
    assert git("branch", "--show-current").strip() == "accept/run-17"
    push, (method, path, fields) = checkout
    assert push[-1] == "HEAD:refs/heads/accept/run-17"
    assert (method, path, fields["base"], fields["head"]) == ("POST", "pulls", "main", "accept/run-17")
    assert "@someone" not in fields["body"]


def test_nothing_accepted_is_nothing_to_propose(
    checkout: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """No empty pull request."""
    Path("other.txt").write_text("new\n")
    assert cli.main(["propose", "--run", "17", "--why", "x"]) == 2
    assert "nothing changed in baselines" in capsys.readouterr().err
    assert checkout == []


def test_git_says_why_it_refuses(checkout: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """A branch that is there already is an error with git's own words."""
    git("branch", "accept/run-17")
    Path("baselines/cpu/pool.jsonl").write_text("new\n")
    assert cli.main(["propose", "--run", "17", "--why", "x"]) == 2
    assert "git switch: fatal: a branch named" in capsys.readouterr().err


def test_another_branch_has_a_checkout_of_its_own(
    checkout: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its baselines are committed there, and the request is for that branch; this checkout stays as it is."""
    Path("baselines/cpu/pool.jsonl").write_text("new\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    words = ["propose", "--run", "17", "--why", "x", "--checkout", "..", "--base", "vllm-0.28.0"]
    assert cli.main(words) == 0
    assert git("show", "--name-only", "--format=", "HEAD").split() == ["baselines/cpu/pool.jsonl"]
    assert checkout[-1][2]["base"] == "vllm-0.28.0"
