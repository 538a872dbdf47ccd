"""Play one scenario: the workflows of a pull request, then the report about them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from ci.errors import GateError
from ci.rehearsal import stage
from ci.rehearsal.world import (
    BRANCH,
    HANGS,
    HEAD,
    NUMBER,
    OTHER_LABEL_ID,
    REGRESSED,
    REPOSITORY,
    RUN_IDS,
    SILENT,
    VARIABLE,
    World,
    event,
    pull,
)

LIMIT_S = 300.0
POLL_S = 0.2


class InterpreterError(GateError):
    """There is no interpreter of workflows, or it does not end."""


@dataclass(frozen=True)
class Scenario:
    """What happens, and what has to be seen afterwards."""

    name: str
    status: str
    """State of the commit."""
    says: tuple[str, ...]
    """Words of the comment or the status."""
    exit_code: int
    """Of the report."""
    source: str = REPOSITORY
    lanes: dict[str, str] = field(default_factory=dict)
    """What a lane does instead of passing."""
    twice: bool = False
    """Report after the first workflow as well, while the second still runs."""


SCENARIOS = (
    Scenario("own-green", "success", ("cpu, rtx3090, rtx4090: pass",), 0, twice=True),
    Scenario("own-regressed", "failure", ("regressed", "rtx3090"), 1, lanes={"rtx3090": REGRESSED}),
    Scenario("fork", "pending", ("needs a maintainer",), 0, source="them/it"),
    Scenario("cancelled-lane", "failure", ("rtx4090", "(cancelled)"), 1, lanes={"rtx4090": HANGS}),
    Scenario("missing-lane", "failure", ("rtx4090", "missing"), 1, lanes={"rtx4090": SILENT}),
)


@dataclass(frozen=True)
class Outcome:
    """What was seen."""

    scenario: Scenario
    status: str
    problems: tuple[str, ...]
    seconds: float


def play(scenario: Scenario, folder: Path) -> Outcome:
    """Play a scenario in an empty folder; its logs stay there."""
    started = time.monotonic()
    world = World(folder / "world")
    world.root.mkdir(parents=True)
    world.write("lanes.json", scenario.lanes)
    world.write("pull.json", pull(scenario.source))
    stage.copy_checkout(folder / "stage")
    stage.write_programs(folder / "bin")
    actions = stage.write_actions(folder / "actions")
    runs = []
    for workflow in ("ci", "gpu"):
        conclusion = _act(workflow, scenario, folder, world, actions)[1]
        runs.append(_run(workflow, RUN_IDS[workflow], conclusion, scenario.source))
        world.write("runs.json", runs)
        if workflow == "ci" and scenario.twice:
            goes_on = _run("gpu", RUN_IDS["gpu"], "", scenario.source) | {
                "status": "in_progress", "conclusion": None,
            }  # fmt: skip
            world.write("runs.json", [*runs, goes_on])
            _act("report", scenario, folder, world, actions)
            shutil.rmtree(world.uploads / "report")
    runs.append(_run("gpu", OTHER_LABEL_ID, "skipped", scenario.source))
    world.write("runs.json", runs)
    code, _ = _act("report", scenario, folder, world, actions)
    return _judge(scenario, world, code, time.monotonic() - started)


def _run(workflow: str, number: int, conclusion: str, source: str) -> dict[str, object]:
    return {
        "id": number, "name": workflow, "head_sha": HEAD, "status": "completed", "run_attempt": 1,
        "event": "pull_request", "conclusion": conclusion,
        "head_branch": BRANCH, "head_repository": {"full_name": source},
    }  # fmt: skip


def _act(
    workflow: str, scenario: Scenario, folder: Path, world: World, actions: dict[str, Path]
) -> tuple[int, str]:
    """Run one workflow to its end: the exit code, and GitHub's word for it."""
    name, content = event(workflow, scenario.source)
    world.write(f"{workflow}.event.json", content)
    log = folder / f"{workflow}.log"
    with log.open("wb") as stream:
        child = subprocess.Popen(
            command(workflow, name, folder, world, actions), cwd=folder / "stage", stdout=stream,
            stderr=subprocess.STDOUT, env=environment(folder), start_new_session=True,
        )  # fmt: skip
        try:
            cancelled = _wait(child, world)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    if cancelled:
        return child.returncode, "cancelled"
    return child.returncode, "success" if child.returncode == 0 else "failure"


def _wait(child: subprocess.Popen[bytes], world: World) -> bool:
    """Wait for the end; cancel once a job hangs and the other lane has uploaded.  True if cancelled."""
    deadline = time.monotonic() + LIMIT_S
    cancelled = False
    while child.poll() is None:
        if time.monotonic() > deadline:
            raise InterpreterError(f"the interpreter did not end within {LIMIT_S:.0f} s")
        others = list((world.uploads / "gpu").glob("run-rtx3090*.zip"))
        if world.hanging.exists() and others and not cancelled:
            cancelled = True
            world.hanging.unlink()
            child.send_signal(signal.SIGINT)
        time.sleep(POLL_S)
    return cancelled


def command(workflow: str, name: str, folder: Path, world: World, actions: dict[str, Path]) -> list[str]:
    """The interpreter's command line."""
    interpreter = Path(sys.executable).with_name("act")
    found = str(interpreter) if interpreter.exists() else shutil.which("act")
    if found is None:
        raise InterpreterError("act is not installed", remedy="nox -s rehearse")
    words = [found, name, "-W", f".github/workflows/{workflow}.yml"]
    words += ["-e", str(world.root / f"{workflow}.event.json"), "--env", f"{VARIABLE}={world.root}"]
    # Neither its servers nor containers are used; so a machine without any network will do.
    words += ["--no-cache-server", "--artifact-server-addr", "127.0.0.1", "--container-daemon-socket", "-"]
    for label in ("ubuntu-24.04", "self-hosted"):
        words += ["-P", f"{label}=-self-hosted"]
    for pin in sorted(stage.pins(folder / "stage")):
        if pin.partition("@")[0] in actions:
            words += ["--local-repository", f"{pin}={actions[pin.partition('@')[0]]}"]
    return words


def environment(folder: Path) -> dict[str, str]:
    """The interpreter's environment: our programs first, and a home of its own."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "GH_", "ACT"))
    }
    return {**kept, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "HOME": str(home)}


def _judge(scenario: Scenario, world: World, code: int, seconds: float) -> Outcome:
    """Hold what was sent against what the scenario asks."""
    statuses, comments = world.sent(f"statuses/{HEAD}"), world.sent(f"issues/{NUMBER}/comments")
    problems = []
    status = statuses[-1]["state"] if statuses else "none"
    if scenario.twice:
        before = [one["state"] for one in statuses[:-1]]
        changed = len(world.sent("issues/comments/1"))
        if before != ["pending"] or changed != 1:
            problems.append(f"before it the status was {before}, and the comment was changed {changed} times")
    if status != scenario.status:
        problems.append(f"the status is {status}, not {scenario.status}")
    if len(comments) != 1:
        problems.append(f"{len(comments)} comments were written, not one")
    text = " ".join([*(one["body"] for one in comments), *(one["description"] for one in statuses)])
    problems += [f"neither comment nor status says {words!r}" for words in scenario.says if words not in text]
    if code != scenario.exit_code:
        problems.append(f"the report ended with {code}, not {scenario.exit_code}")
    gpu = sorted(file.name for file in (world.uploads / "gpu").glob("run-*.zip"))
    if scenario.source != REPOSITORY and gpu:
        problems.append(f"code of a fork ran on a machine of ours: {', '.join(gpu)}")
    return Outcome(scenario, status, tuple(problems), seconds)
