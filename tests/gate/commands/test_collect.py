from __future__ import annotations

import io
import json
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ci import cli
from ci.commands import collect
from ci.lanes.github import GitHub, GitHubError, check_commit
from ci.lanes.matrix import MATRIX_FILE, parse_matrix, plan_jobs
from ci.lanes.standing import artifact_name, event_of
from ci.report.markdown import MARKER

SHA = "a1" * 20
ROOT = Path(__file__).parents[3]
(CPU, *_) = plan_jobs(
    parse_matrix(MATRIX_FILE.read_text(encoding="utf-8")), event_of(None, "us/it", None)
).cells


class StandIn:
    """GitHub's side: answers by path, and what was sent to it."""

    def __init__(
        self, archive: Path | None, head: str = "them/it", number: int = 7, tree: bytes = b""
    ) -> None:
        self.archive, self.sent, self.tree = archive, [], tree
        run = {"id": 5, "name": "ci", "head_sha": SHA, "status": "completed", "run_attempt": 1}
        upload = {"id": 9, "name": artifact_name(CPU, 1), "size_in_bytes": 1000, "expired": False}
        base = {"sha": "b2" * 20, "repo": {"full_name": "us/it"}}
        pull = {
            "number": number,
            "state": "open",
            "head": {"sha": SHA, "repo": {"full_name": head}},
            "base": base,
        }
        elsewhere = {**pull, "number": 1, "head": {"sha": "c3" * 20, "repo": {"full_name": head}}}
        theirs = {"id": 3, "body": f"{MARKER} forged", "user": {"type": "User"}}
        self.answers: dict[str, Any] = {
            "actions/runs": {"workflow_runs": [{**run, "event": "pull_request", "conclusion": "success"}]},
            "actions/runs/5/artifacts": {"artifacts": [upload] if archive else []},
            f"commits/{SHA}/pulls": [elsewhere, pull],
            f"pulls/{number}/files": [{"filename": "patches/a.patch"}],
            f"issues/{number}/comments": [theirs],
        }

    def __call__(self, arguments: Any, data: bytes | None = None, stdout: Any = None) -> bytes:
        """One call of gh."""
        path = arguments[0].removeprefix("repos/us/it/").partition("?")[0]
        if arguments[0] == "--method":
            self.sent.append(
                (arguments[1], arguments[2].removeprefix("repos/us/it/"), json.loads(data or b"{}"))
            )
            return b"{}"
        if path == f"tarball/{SHA}":
            stdout.write(self.tree)
            return b""
        if path == "actions/artifacts/9/zip" and self.archive is not None:
            stdout.write(self.archive.read_bytes())
            return b""
        return json.dumps(self.answers[path]).encode()


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Report on the commit with a stand-in for GitHub; returns its exit code and what was sent."""
    monkeypatch.setenv("GITHUB_REPOSITORY", "us/it")
    monkeypatch.setattr(collect, "REPORT", tmp_path / "report")

    def report(archive: Path | None, **given: Any) -> tuple[int, dict[str, Any], list[str]]:
        stand_in = StandIn(archive, **given)
        monkeypatch.setattr(GitHub, "_call", lambda self, *words, **more: stand_in(*words, **more))
        code = cli.main(["collect", "--github", "--commit", SHA])
        comments = [path for _, path, fields in stand_in.sent if "body" in fields]
        (status,) = [fields for _, path, fields in stand_in.sent if path == f"statuses/{SHA}"]
        return code, status, comments

    return report


def pack(path: Path, names: dict[str, bytes]) -> Path:
    """An archive of these files."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in names.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("name", ["../evil.json", "cpu/pool/pr.txt", "rtx3090/oracle/run.json"])
def test_a_hostile_upload_is_refused_and_said(
    name: str,
    github: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit 2 with a clear line, the status red, the comment on the pull request that GitHub names."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    code, status, comments = github(pack(tmp_path / "a.zip", {name: b"1"}))
    assert code == 2
    assert status["state"] == "failure"
    assert comments == ["issues/7/comments"]
    assert "refused" in capsys.readouterr().out
    page = (tmp_path / "report" / "comment.md").read_text()
    assert "refused" in page
    assert (tmp_path / "summary").read_text() == page


def test_a_comment_begins_with_its_marker_once(github: Any, tmp_path: Path) -> None:
    """A later run finds it, and a marker that a person wrote is not taken for ours."""
    github(None)
    page = (tmp_path / "report" / "comment.md").read_text()
    assert page.startswith(f"{MARKER}\n### \u274c failure: cpu: missing")
    assert page.count(MARKER) == 1


def test_a_lane_that_brought_nothing_is_red(github: Any) -> None:
    """However green its workflow was."""
    code, status, _ = github(None)
    assert code == 2
    assert status["state"] == "failure"
    assert "cpu: missing" in status["description"]


def test_a_folder_of_archives_is_collected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Into the folder of the runs; none at all is an error."""
    assert cli.main(["collect", "--from", str(tmp_path)]) == 2
    shutil.copy(pack(tmp_path / "x", {"cpu/pool/run.json": b"{}"}), tmp_path / "a.zip")
    assert cli.main(["collect", "--from", str(tmp_path), "--into", str(tmp_path / "runs")]) == 0
    assert (tmp_path / "runs" / "cpu" / "pool" / "run.json").read_bytes() == b"{}"
    assert "cpu/pool" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "HEAD", "a1" * 19, "../" + "a" * 37, "A1" * 20])
def test_only_a_whole_commit_is_asked_about(text: str) -> None:
    """It becomes part of an address."""
    with pytest.raises(GitHubError):
        check_commit(text)


def commit_tree(plan: str) -> bytes:
    """The files of a commit: our matrix, and a plan."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        files = {"ci/lanes/matrix.toml": MATRIX_FILE.read_text(encoding="utf-8"), "baselines/plan.toml": plan}
        files["baselines/policy.toml"] = (ROOT / "baselines" / "policy.toml").read_text(encoding="utf-8")
        for name, text in files.items():
            info = tarfile.TarInfo(f"us-it-a1/{name}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


PLAN = """\
schema = 1
[[suite]]
name = "only-in-the-commit"
lanes = ["cpu"]
[[suite.case]]
names = ["one"]
metrics = ["violations"]
[[suite.control]]
names = ["control"]
"""
RUN_INFO = b'{"run":"r","lane":"cpu","suite":"pool","started":"2026-01-01T00:00:00Z"}'


def test_a_branch_here_is_held_against_its_own_rules(github: Any, tmp_path: Path) -> None:
    """A suite that only the commit plans is missed; of a fork, the same commit is held against ours."""
    upload = pack(tmp_path / "a.zip", {"cpu/pool/run.json": RUN_INFO})
    tree = commit_tree(PLAN)
    github(upload, head="us/it", tree=tree)
    assert "only-in-the-commit" in (tmp_path / "report" / "comment.md").read_text()
    github(upload, head="them/it", tree=tree)
    assert "only-in-the-commit" not in (tmp_path / "report" / "comment.md").read_text()


@pytest.mark.parametrize("tree", [b"damaged", commit_tree("schema = 1\nnonsense = 2\n")])
def test_rules_that_cannot_be_used_are_said_on_the_commit(
    tree: bytes, github: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A commit does not keep an older status because the report came to no end."""
    upload = pack(tmp_path / "a.zip", {"cpu/pool/run.json": RUN_INFO})
    code, status, _ = github(upload, head="us/it", tree=tree)
    assert code == 2
    assert status["state"] == "failure"
    assert status["description"].startswith("no report: ")
    assert "no verdict" in capsys.readouterr().err


@pytest.mark.parametrize("event", ["workflow_dispatch", "pull_request"])
def test_a_commit_that_nothing_is_planned_for_gets_no_status(
    event: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run by hand on a branch without a pull request does not paint its commit red."""
    monkeypatch.setenv("GITHUB_REPOSITORY", "us/it")
    stand_in = StandIn(None)
    stand_in.answers[f"commits/{SHA}/pulls"] = []
    stand_in.answers["actions/runs"]["workflow_runs"][0]["event"] = event
    monkeypatch.setattr(GitHub, "_call", lambda self, *words, **more: stand_in(*words, **more))
    assert cli.main(["collect", "--github", "--commit", SHA]) == 0
    assert stand_in.sent == []
    assert "no pull request" in capsys.readouterr().out


def test_a_push_to_main_is_reported_without_a_comment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By its own rules; a lane that its run did not have is not missed."""
    monkeypatch.setenv("GITHUB_REPOSITORY", "us/it")
    monkeypatch.setattr(collect, "REPORT", tmp_path / "report")
    upload = pack(tmp_path / "a.zip", {"cpu/pool/run.json": RUN_INFO})
    stand_in = StandIn(upload, tree=commit_tree(PLAN))
    stand_in.answers[f"commits/{SHA}/pulls"] = []
    runs = stand_in.answers["actions/runs"]["workflow_runs"]
    runs[0]["event"] = "push"
    runs.append({**runs[0], "id": 6, "name": "gpu"})
    stand_in.answers["actions/runs/6/artifacts"] = {"artifacts": []}
    stand_in.answers["actions/runs/6/jobs"] = {"jobs": [{"name": "Plan"}, {"name": "rtx4090"}]}
    monkeypatch.setattr(GitHub, "_call", lambda self, *words, **more: stand_in(*words, **more))
    cli.main(["collect", "--github", "--commit", SHA])
    ((_, path, status),) = stand_in.sent
    assert path == f"statuses/{SHA}"
    assert "rtx4090: missing" in status["description"]
    assert "rtx3090" not in status["description"]
