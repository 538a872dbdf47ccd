from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from ci.lanes.github import GitHub, GitHubError, Repo, Run, this_repository

US, SHA = "us/it", "a1" * 20
RUN = Run(5, "ci", SHA, "completed", 1, "pull_request", "success", "a&b=c", Repo("them/it"))


def pull(number: int = 7, sha: str = SHA, base: str = US, state: str = "open") -> dict[str, Any]:
    """A pull request as GitHub tells it."""
    return {
        "number": number,
        "state": state,
        "head": {"sha": sha, "repo": {"full_name": "them/it"}},
        "base": {"sha": "b2" * 20, "repo": {"full_name": base}},
    }


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What GitHub answers by path and query; what was asked or sent stands under its own path."""
    told: dict[str, Any] = {"asked": []}

    def call(self: GitHub, arguments: list[str], data: bytes | None = None, stdout: Any = None) -> bytes:
        if arguments[0] == "--method":
            told["asked"].append((arguments[1], arguments[2].removeprefix(f"repos/{US}/")))
            return b"{}"
        path = arguments[0].removeprefix(f"repos/{US}/")
        told["asked"].append(path)
        found = told.get(path, told.get(path.partition("?")[0], []))
        return json.dumps(found).encode()

    monkeypatch.setattr(GitHub, "_call", call)
    return told


def test_a_pull_request_of_a_branch_here_is_found_by_its_commit(answers: dict[str, Any]) -> None:
    """Closed ones, other heads and other repositories are none of ours."""
    answers[f"commits/{SHA}/pulls"] = [
        pull(1, sha="c3" * 20), pull(2, base="else/where"), pull(3, state="closed"), pull(4),
    ]  # fmt: skip
    assert [one.number for one in GitHub(US).pulls_of(SHA, [RUN])] == [4]


def test_one_of_a_fork_is_found_by_the_branch_of_its_run(answers: dict[str, Any]) -> None:
    """GitHub says nothing about a commit that only the fork has; the branch's name is a stranger's text."""
    answers["pulls"] = [pull(1, sha="c3" * 20), pull(8)]
    assert [one.number for one in GitHub(US).pulls_of(SHA, [RUN])] == [8]
    query = answers["asked"][-1].partition("?")[2]
    assert parse_qs(query)["head"] == ["them:a&b=c"]


def test_a_run_of_another_commit_leads_nowhere(answers: dict[str, Any]) -> None:
    """Neither does one whose fork was deleted."""
    gone = Run(6, "ci", SHA, "completed", 1, "pull_request", "success", "b", None)
    other = Run(7, "ci", "c3" * 20, "completed", 1, "pull_request", "success", "b", Repo("them/it"))
    answers["pulls"] = [pull(8)]
    assert GitHub(US).pulls_of(SHA, [gone, other]) == []
    assert answers["asked"] == [f"commits/{SHA}/pulls?per_page=100"]


def test_the_comment_is_found_on_a_later_page(answers: dict[str, Any]) -> None:
    """A long discussion does not get a second one; what a person wrote is not ours."""
    talk = [{"id": n, "body": "mark forged", "user": {"type": "User"}} for n in range(100)]
    answers["issues/7/comments?per_page=100&page=1"] = talk
    answers["issues/7/comments?per_page=100&page=2"] = [
        {"id": 500, "body": "mark ours", "user": {"type": "Bot"}}
    ]
    GitHub(US).comment(7, "mark", "new")
    assert answers["asked"][-1] == ("PATCH", "issues/comments/500")


def test_a_first_comment_is_written_anew(answers: dict[str, Any]) -> None:
    """No page has ours."""
    GitHub(US).comment(7, "mark", "new")
    assert answers["asked"][-1] == ("POST", "issues/7/comments")


def test_a_moved_file_touches_both_places(answers: dict[str, Any]) -> None:
    """A patch that leaves its folder touches the folder."""
    answers["pulls/7/files"] = [{"filename": "old/a.patch", "previous_filename": "patches/a.patch"}]
    assert GitHub(US).files_of(7) == ("old/a.patch", "patches/a.patch")
    answers["pulls/7/files"] = [{"filename": "x"}] * 100
    assert GitHub(US).files_of(7) is None


def test_jobs_are_known_by_name(answers: dict[str, Any]) -> None:
    """Of the last attempt."""
    answers["actions/runs/5/jobs?filter=latest&per_page=100"] = {"jobs": [{"name": "rtx3090", "id": 1}]}
    assert GitHub(US).jobs_of(5) == {"rtx3090"}


def test_an_answer_of_another_shape_is_an_error(answers: dict[str, Any]) -> None:
    """Not an empty list."""
    answers[f"commits/{SHA}/pulls"] = {"message": "rate limit"}
    with pytest.raises(GitHubError, match="another shape"):
        GitHub(US).pulls_of(SHA)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://github.com/us/it.git", "us/it"),
        ("https://github.com/us/it", "us/it"),
        ("https://me@github.com/us/it.git/", "us/it"),
        ("git@github.com:us/it.git", "us/it"),
        ("ssh://git@github.com/us/it.v2", "us/it.v2"),
        ("https://example.org/us/it.git", None),
        ("https://example.org/github.com/us/it", None),
        ("https://github.com/us", None),
        ("/srv/it.git", None),
        (None, None),
    ],
)
def test_the_repository_is_the_one_that_was_cloned(
    address: str | None, name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the variable of a workflow names another; nothing is guessed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    subprocess.run(["git", "init", "-q"], check=True)
    if address is not None:
        subprocess.run(["git", "remote", "add", "origin", address], check=True)
    if name is None:
        with pytest.raises(GitHubError, match="names a repository of GitHub"):
            this_repository()
    else:
        assert this_repository().repository == name
    monkeypatch.setenv("GITHUB_REPOSITORY", "them/other")
    assert this_repository().repository == "them/other"
