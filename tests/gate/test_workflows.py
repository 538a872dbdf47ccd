from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ci import cli
from tests.gate.test_docs import sessions

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONS = sorted((ROOT / ".github" / "actions").rglob("action.yml"))
PINNED = re.compile(r"[a-z0-9-]+/[a-z0-9-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
OURS = ("./.github/actions/setup", "./.github/workflows/gpu.yml")
MUTATION = ROOT / "tests" / "mutation" / "run.py"
"""The one session with options that is no command of ``python -m ci``."""
SETUP = "python -m pip install --quiet --require-hashes -r locks/nox.txt"


def name(path: Path) -> str:
    """The file as a test id."""
    return path.relative_to(ROOT).as_posix()


def values(path: Path, key: str) -> list[str]:
    """What stands behind ``key:`` in a file, comments included, line by line."""
    return re.findall(rf"^ *(?:- )?{key}: *(.*?)$", path.read_text(encoding="utf-8"), re.MULTILINE)


def check_run(words: list[str]) -> None:
    """A step is one session of the noxfile, and what it hands over is understood by its command."""
    assert words[:2] == ["nox", "-s"]
    at = words.index("--") if "--" in words else len(words)
    named = words[2:at]
    rest = ["1" if word.startswith("$") else word for word in words[at + 1 :]]
    if named == ["$SUITES"]:
        cli.parse(["run", "property", *rest])
        return
    assert len(named) == 1
    if named != ["$SESSION"]:
        assert named[0] in sessions()
        if named == ["mutation"]:
            known = re.findall(r'add_argument\("(--[a-z]+)"', MUTATION.read_text(encoding="utf-8"))
            assert {word for word in rest if word.startswith("-")} <= set(known)
        elif rest:
            cli.parse([named[0], *rest])


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=name)
def test_every_step_is_a_session(path: Path) -> None:
    """No workflow holds logic: each `run:` is one line that names a session, with options it knows."""
    for line in values(path, "run"):
        if line != SETUP:
            check_run(shlex.split(line))


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_every_session_of_a_list_exists(path: Path) -> None:
    """`session: [a, b]` of a matrix names sessions of the noxfile."""
    for line in values(path, "session"):
        assert set(re.findall(r"[a-z-]+", line)) - sessions().keys() == set()


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_a_workflow_starts_without_rights(path: Path) -> None:
    """The top gives none, and each job takes what it needs."""
    text = path.read_text(encoding="utf-8")
    assert "\npermissions: {}\n" in text
    jobs = text.partition("\njobs:\n")[2]
    assert len(re.findall(r"^  [a-z-]+:$", jobs, re.MULTILINE)) == len(
        re.findall(r"^    permissions:$", jobs, re.MULTILINE)
    )


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=name)
def test_every_action_is_pinned(path: Path) -> None:
    """By commit, with the version beside it; what is ours comes with the checkout."""
    for used in values(path, "uses"):
        assert used in OURS or PINNED.fullmatch(used), used


def test_an_action_has_one_commit_everywhere() -> None:
    """Two workflows cannot pin two versions of one action."""
    pins = {used for path in [*WORKFLOWS, *ACTIONS] for used in values(path, "uses") if "@" in used}
    assert len({pin.partition("@")[0] for pin in pins}) == len(pins)


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_no_result_is_lost_in_silence(path: Path) -> None:
    """Every upload fails without a file, every list of jobs runs to its end, every job has a limit."""
    text = path.read_text(encoding="utf-8")
    assert text.count("upload-artifact@") == text.count("if-no-files-found: error")
    assert text.count("strategy:") == text.count("fail-fast: false")
    assert text.count("runs-on:") == text.count("timeout-minutes:")
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_no_text_of_an_event_reaches_a_shell(path: Path) -> None:
    """Expressions stand in `env:` and `with:`, never in a command line."""
    assert [line for line in values(path, "run") if "${{" in line] == []


def test_machines_of_ours_wait_for_no_fork() -> None:
    """Each job of gpu.yml that an event of a pull request starts asks whose code it is."""
    text = (ROOT / ".github" / "workflows" / "gpu.yml").read_text(encoding="utf-8")
    own = "github.event.pull_request.head.repo.full_name == github.repository"
    assert text.count(own) == len(
        re.findall(r"^  [a-z]+:\n    name:", text.partition("\njobs:\n")[2], re.MULTILINE)
    )
    others = [path for path in WORKFLOWS if path.name != "gpu.yml"]
    assert [path.name for path in others if "self-hosted" in path.read_text(encoding="utf-8")] == []
    assert [
        path.name for path in WORKFLOWS if "pull_request_target" in path.read_text(encoding="utf-8")
    ] == []


@pytest.mark.parametrize(
    "line",
    [
        "make test",
        "nox -s nothing",
        "nox -s tests && curl x",
        "nox -s drift -- --no-such-option",
        "nox -s mutation -- --no-such",
    ],
)
def test_another_step_would_be_seen(line: str) -> None:
    """The check of steps is red for what is no session, or hands over what no command knows."""
    with pytest.raises((AssertionError, cli.GateError)):
        check_run(shlex.split(line))
