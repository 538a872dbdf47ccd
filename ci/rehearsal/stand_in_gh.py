"""Stands for ``gh api`` in a rehearsal: the few calls that `ci.lanes.github` makes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from ci.rehearsal.world import BRANCH, HEAD, NUMBER, REPOSITORY, RUN_IDS, World


def main(arguments: Sequence[str]) -> int:
    """Answer one call."""
    world = World.here()
    words = list(arguments[1:])
    if words[0] == "--method":
        path = words[2].removeprefix(f"repos/{REPOSITORY}/")
        world.send(words[1], path, json.loads(sys.stdin.read()))
        print("{}")
        return 0
    path, _, query = words[0].removeprefix(f"repos/{REPOSITORY}/").partition("?")
    if path.endswith("/zip"):
        sys.stdout.buffer.write(uploads(world)[int(path.split("/")[2])][1].read_bytes())
        return 0
    if path == f"tarball/{HEAD}":
        stage = subprocess.run(
            ["git", "archive", "--format=tar.gz", "--prefix=it/", "HEAD"], check=True, stdout=-1
        )
        sys.stdout.buffer.write(stage.stdout)
        return 0
    print(json.dumps(answer(world, path, query)))
    return 0


def uploads(world: World) -> dict[int, tuple[str, Path]]:
    """Every upload by a number of its own, with its workflow."""
    files = sorted(world.uploads.glob("*/*.zip"))
    return {number: (file.parent.name, file) for number, file in enumerate(files, start=1)}


def answer(world: World, path: str, query: str = "") -> Any:  # noqa: ANN401 - JSON
    """What GitHub would say."""
    if path == "actions/runs":
        return {"workflow_runs": world.read("runs.json")}
    if path.startswith("actions/runs/"):
        workflow = {number: name for name, number in RUN_IDS.items()}.get(int(path.split("/")[2]))
        found = [
            {"id": number, "name": file.stem, "size_in_bytes": file.stat().st_size, "expired": False}
            for number, (owner, file) in uploads(world).items()
            if owner == workflow
        ]
        return {"artifacts": found}
    pull = world.read("pull.json")
    source = pull["head"]["repo"]["full_name"]
    if path == f"commits/{HEAD}/pulls":  # says nothing about a commit that only a fork has
        return [pull] if source == REPOSITORY else []
    if path == "pulls":
        (head,) = parse_qs(query)["head"]
        return [pull] if head == f"{source.split('/')[0]}:{BRANCH}" else []
    if path == f"pulls/{NUMBER}/files":
        return [{"filename": "patches/series"}]
    if path == f"issues/{NUMBER}/comments":
        return [
            {"id": 1, "body": one["body"], "user": {"type": "Bot"}} for one in world.sent(".*comments.*")
        ][-1:]
    raise SystemExit(f"gh stand-in: unexpected call: {path}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
