"""In place of GitHub: a folder with runs, uploads, one pull request and what was sent."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "FORKPROOF_REHEARSAL"
"""Names the folder, in every step of a rehearsed workflow."""
REPOSITORY = "us/it"
HEAD, BASE = "a1" * 20, "b2" * 20
BRANCH = "change"
NUMBER = 7
RUN_IDS = {"ci": 101, "gpu": 102}
OTHER_LABEL_ID = 103
"""A later run of gpu that another label started, and that was skipped as a whole."""
SUITE = "pool"
"""The one suite of a rehearsal; its accepted results stand for measured ones."""
LANES = ("cpu", "rtx3090", "rtx4090")
REGRESSED, HANGS, SILENT = "regressed", "hangs", "silent"
"""What a lane may do instead of passing."""


@dataclass(frozen=True)
class World:
    """The folder."""

    root: Path

    @classmethod
    def here(cls) -> World:
        """The folder that this step was given."""
        return cls(Path(os.environ[VARIABLE]))

    @property
    def uploads(self) -> Path:
        """``WORKFLOW/NAME.zip`` for each upload."""
        return self.root / "uploads"

    @property
    def hanging(self) -> Path:
        """Appears once a job hangs."""
        return self.root / "hanging"

    def write(self, name: str, data: object) -> None:
        """Keep something."""
        (self.root / name).write_text(json.dumps(data), encoding="utf-8")

    def read(self, name: str) -> Any:  # noqa: ANN401 - whatever was kept
        """What was kept."""
        return json.loads((self.root / name).read_text(encoding="utf-8"))

    def lane_does(self, lane: str) -> str:
        """What the lane does instead of passing; empty if it passes."""
        return str(self.read("lanes.json").get(lane, ""))

    def send(self, method: str, path: str, fields: dict[str, str]) -> None:
        """Keep what was sent, in order."""
        with (self.root / "sent.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps([method, path, fields]) + "\n")

    def sent(self, pattern: str) -> list[dict[str, str]]:
        """Fields of everything that was sent to a path."""
        file = self.root / "sent.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [fields for _, path, fields in map(json.loads, lines) if re.fullmatch(pattern, path)]


def pull(source: str) -> dict[str, Any]:
    """The pull request, whose code is from the repository ``source``."""
    return {
        "number": NUMBER,
        "state": "open",
        "head": {"sha": HEAD, "ref": BRANCH, "repo": {"full_name": source}},
        "base": {"sha": BASE, "ref": "main", "repo": {"full_name": REPOSITORY}},
        "labels": [{"name": "gpu"}],
    }


def event(workflow: str, source: str) -> tuple[str, dict[str, Any]]:
    """Name and content of the event that starts a workflow."""
    owner, name = REPOSITORY.split("/")
    repository = {"full_name": REPOSITORY, "name": name, "owner": {"login": owner}, "default_branch": "main"}
    if workflow == "report":
        run = {"head_sha": HEAD, "name": "ci"}
        return "workflow_run", {"action": "completed", "workflow_run": run, "repository": repository}
    action = {"action": "labeled", "label": {"name": "gpu"}} if workflow == "gpu" else {"action": "opened"}
    return "pull_request", {
        **action,
        "number": NUMBER,
        "pull_request": pull(source),
        "repository": repository,
    }
