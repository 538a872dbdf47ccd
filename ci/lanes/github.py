"""The few calls to GitHub's interface, through its own ``gh``: answers checked, nothing taken on trust."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import msgspec

from ci.errors import GateError

TIMEOUT_S = 120.0
MAX_PAGES = 30
"""Of a hundred comments each."""
COMMIT = re.compile(r"[0-9a-f]{40}")
REPOSITORY = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")
ORIGIN = re.compile(r"(?:https://(?:[^@/]+@)?|ssh://git@|git@)github\.com[:/]([^/]+/[^/]+?)(?:\.git)?/?")
"""The ways in which a clone spells its address."""


class GitHubError(GateError):
    """GitHub, or ``gh``, does not answer as it should."""


class Repo(msgspec.Struct, frozen=True):
    """A repository."""

    full_name: str


class Run(msgspec.Struct, frozen=True):
    """One run of a workflow."""

    id: int
    name: str
    head_sha: str
    status: str
    run_attempt: int
    event: str
    conclusion: str | None = None
    head_branch: str | None = None
    head_repository: Repo | None = None
    """Where its code is from: a stranger's, where a fork opened the pull request."""


class Artifact(msgspec.Struct, frozen=True):
    """One upload of a run."""

    id: int
    name: str
    size_in_bytes: int
    expired: bool


class Side(msgspec.Struct, frozen=True):
    """One side of a pull request."""

    sha: str
    repo: Repo | None = None
    """None once a fork was deleted."""


class Label(msgspec.Struct, frozen=True):
    """A label."""

    name: str


class Pull(msgspec.Struct, frozen=True):
    """A pull request."""

    number: int
    state: str
    head: Side
    base: Side
    labels: tuple[Label, ...] = ()


class User(msgspec.Struct, frozen=True):
    """Who wrote something."""

    type: str


class Comment(msgspec.Struct, frozen=True):
    """A comment on a pull request."""

    id: int
    body: str
    user: User


class _Runs(msgspec.Struct, frozen=True):
    workflow_runs: tuple[Run, ...]


class _Job(msgspec.Struct, frozen=True):
    name: str


class _Jobs(msgspec.Struct, frozen=True):
    jobs: tuple[_Job, ...]


class _Artifacts(msgspec.Struct, frozen=True):
    artifacts: tuple[Artifact, ...]


class _Runner(msgspec.Struct, frozen=True):
    status: str
    labels: tuple[Label, ...]


class _Runners(msgspec.Struct, frozen=True):
    runners: tuple[_Runner, ...]


class _File(msgspec.Struct, frozen=True):
    filename: str
    previous_filename: str | None = None


@dataclass(frozen=True)
class GitHub:
    """One repository."""

    repository: str

    def runs_of(self, commit: str) -> list[Run]:
        """Runs whose code is ``commit``, newest first."""
        return list(self._get(f"actions/runs?head_sha={commit}&per_page=100", _Runs).workflow_runs)

    def run(self, number: int) -> Run:
        """One run as it is now."""
        found: Run = self._get(f"actions/runs/{number:d}", Run)
        return found

    def dispatched(self, workflow: str, ref: str) -> list[Run]:
        """Runs of a workflow that somebody started by hand on a branch, newest first."""
        query = f"event=workflow_dispatch&per_page=20&branch={quote(ref, safe='')}"
        return list(self._get(f"actions/workflows/{workflow}.yml/runs?{query}", _Runs).workflow_runs)

    def dispatch(self, workflow: str, ref: str, inputs: Mapping[str, str]) -> None:
        """Start a workflow on a branch."""
        self._send(
            "POST", f"actions/workflows/{workflow}.yml/dispatches", {"ref": ref, "inputs": dict(inputs)}
        )

    def online_runners(self) -> tuple[frozenset[str], ...] | None:
        """Labels of each runner that is online; None if this user may not ask."""
        try:
            found = self._get("actions/runners?per_page=100", _Runners).runners
        except GitHubError:
            return None
        online = [runner for runner in found if runner.status == "online"]
        return tuple(frozenset(label.name.lower() for label in runner.labels) for runner in online)

    def jobs_of(self, run: int) -> set[str]:
        """Names of the jobs of a run's last attempt."""
        found = self._get(f"actions/runs/{run:d}/jobs?filter=latest&per_page=100", _Jobs).jobs
        return {job.name for job in found}

    def artifacts_of(self, run: int) -> list[Artifact]:
        """Uploads of a run, expired ones left aside."""
        found = self._get(f"actions/runs/{run:d}/artifacts?per_page=100", _Artifacts).artifacts
        return [artifact for artifact in found if not artifact.expired]

    def download(self, artifact: Artifact, to: Path, max_bytes: int) -> None:
        """Save an upload, which may have at most ``max_bytes`` bytes."""
        if artifact.size_in_bytes > max_bytes:
            raise GitHubError(f"artifact {artifact.id}: {artifact.size_in_bytes} bytes, at most {max_bytes}")
        to.parent.mkdir(parents=True, exist_ok=True)
        with to.open("wb") as stream:
            self._call([f"repos/{self.repository}/actions/artifacts/{artifact.id:d}/zip"], stdout=stream)

    def tree(self, commit: str, to: Path) -> None:
        """Save the files of a commit as a tar archive."""
        with to.open("wb") as stream:
            self._call([f"repos/{self.repository}/tarball/{commit}"], stdout=stream)

    def pulls_of(self, commit: str, runs: Sequence[Run] = ()) -> list[Pull]:
        """Open pull requests of this repository whose head is ``commit``, whoever says so elsewhere.

        Args:
            commit: the head.
            runs: runs of this commit. GitHub does not tell the pull requests of a commit that only a fork
                has; by the branch of its run they are found.
        """
        paths = [f"commits/{commit}/pulls?per_page=100"]
        for source, branch in sorted({_source(run) for run in runs if run.head_sha == commit}):
            head = quote(f"{source.partition('/')[0]}:{branch}", safe="")
            paths += [f"pulls?state=open&per_page=100&head={head}"] if source and branch else []
        for path in paths:
            pulls = [pull for pull in self._get(path, tuple[Pull, ...]) if self._is_open(pull, commit)]
            if pulls:
                return pulls
        return []

    def _is_open(self, pull: Pull, commit: str) -> bool:
        base = pull.base.repo.full_name if pull.base.repo is not None else None
        return pull.state == "open" and pull.head.sha == commit and base == self.repository

    def files_of(self, pull: int) -> tuple[str, ...] | None:
        """Paths that a pull request touches, those that it moves away from too; None if they are too many."""
        found = self._get(f"pulls/{pull:d}/files?per_page=100", tuple[_File, ...])
        paths = [path for file in found for path in (file.filename, file.previous_filename) if path]
        return tuple(paths) if len(found) < 100 else None

    def comment(self, pull: int, marker: str, body: str) -> None:
        """Write the one comment that begins with ``marker``: anew, or over what an earlier run wrote."""
        ours = next(
            (
                one.id
                for one in self._comments(pull)
                if one.user.type == "Bot" and one.body.startswith(marker)
            ),
            None,
        )
        if ours is not None:
            self._send("PATCH", f"issues/comments/{ours:d}", {"body": body})
        else:
            self._send("POST", f"issues/{pull:d}/comments", {"body": body})

    def _comments(self, pull: int) -> Iterator[Comment]:
        for page in range(1, MAX_PAGES + 1):
            path = f"issues/{pull:d}/comments?per_page=100&page={page}"
            found: tuple[Comment, ...] = self._get(path, tuple[Comment, ...])
            yield from found
            if len(found) < 100:
                return

    def open_pull(self, title: str, head: str, base: str, body: str) -> None:
        """Open a pull request between two branches of this repository."""
        self._send("POST", "pulls", {"title": title, "head": head, "base": base, "body": body})

    def set_status(self, commit: str, state: str, description: str, link: str) -> None:
        """Set the commit's status; GitHub takes 140 characters."""
        fields = {
            "state": state,
            "context": "forkproof",
            "description": description[:140],
            "target_url": link,
        }
        self._send("POST", f"statuses/{commit}", fields)

    def _get(self, path: str, kind: Any) -> Any:  # noqa: ANN401 - the type asked for
        data = self._call([f"repos/{self.repository}/{path}"])
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise GitHubError(
                f"GitHub's answer about {path.partition('?')[0]} has another shape: {error}"
            ) from error

    def _send(self, method: str, path: str, fields: Mapping[str, object]) -> None:
        command = ["--method", method, f"repos/{self.repository}/{path}", "--input", "-"]
        self._call(command, msgspec.json.encode(fields))

    def _call(
        self, arguments: Sequence[str], data: bytes | None = None, stdout: IO[bytes] | int = subprocess.PIPE
    ) -> bytes:
        if shutil.which("gh") is None:
            raise GitHubError("gh is not installed", remedy="install GitHub's command line, gh")
        try:
            done = subprocess.run(
                ["gh", "api", *arguments], input=data, stdout=stdout, stderr=subprocess.PIPE,
                timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise GitHubError(f"gh gave no answer in {TIMEOUT_S:.0f} s") from error
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no output"]
            raise GitHubError(f"gh api {arguments[-1]}: {said[-1][:200]}", remedy="gh auth status")
        return done.stdout or b""


def _source(run: Run) -> tuple[str, str]:
    return run.head_repository.full_name if run.head_repository else "", run.head_branch or ""


def this_repository() -> GitHub:
    """The repository that ``GITHUB_REPOSITORY`` names, else the one that this checkout was cloned from.

    Raises:
        GitHubError: neither names one.
    """
    name = os.environ.get("GITHUB_REPOSITORY") or _origin()
    if not REPOSITORY.fullmatch(name):
        raise GitHubError(
            "neither GITHUB_REPOSITORY nor the remote origin names a repository of GitHub",
            remedy="export GITHUB_REPOSITORY=OWNER/NAME",
        )
    return GitHub(name)


def _origin() -> str:
    """OWNER/NAME of the remote ``origin``, if that is GitHub; else empty."""
    try:
        done = subprocess.run(
            ["git", "remote", "get-url", "origin"], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    match = ORIGIN.fullmatch(done.stdout.strip())
    return match[1] if match else ""


def check_commit(text: str) -> str:
    """``text``, if it is a commit's full name.

    Raises:
        GitHubError: it is not.
    """
    if not COMMIT.fullmatch(text):
        raise GitHubError(f"{text[:60]!a} is no commit", remedy="40 digits of 0-9 and a-f")
    return text
