"""What README, docs and scripts tell people to type exists and works."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ci import cli

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
SCRIPTS = [ROOT / ".ci" / "run"]
FENCE = re.compile(r"^ *```(?P<info>[^\n`]*)\n(?P<code>.*?)^ *```$", re.MULTILINE | re.DOTALL)
NOX = re.compile(r"\bnox -s ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)*)")
CI = re.compile(r"python -m ci(?P<words>(?: [^`#|\n]*)?)")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def name(path: Path) -> str:
    """The page as a test id."""
    return path.relative_to(ROOT).as_posix()


def sessions() -> dict[str, str | None]:
    """Names and docstrings of the sessions, read without nox."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            marks = [ast.unparse(mark) for mark in node.decorator_list]
            if any(mark.startswith("nox.session") for mark in marks):
                named = re.search(r"\bname='([a-z-]+)'", marks[0])
                found[named[1] if named else node.name] = ast.get_docstring(node)
    return found


@pytest.mark.parametrize("path", [*PAGES, *SCRIPTS], ids=name)
def test_every_session_named_exists(path: Path) -> None:
    """`nox -s X` in a page or script names a session of the noxfile."""
    text = path.read_text(encoding="utf-8")
    named = {word for words in NOX.findall(text) for word in words.split(" ")}
    assert named - sessions().keys() == set()


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_command_line_is_understood(path: Path) -> None:
    """`python -m ci ...` in a page parses as it stands; a command named alone is a command."""
    for match in CI.finditer(path.read_text(encoding="utf-8")):
        words = shlex.split(match["words"])
        if len(words) == 1 and words[0] not in {"...", "--help"}:
            assert words[0] in {command.__name__.rpartition(".")[2] for command in cli.COMMANDS}
        elif len(words) > 1:
            cli.parse(words)


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_link_leads_somewhere(path: Path) -> None:
    """A relative link or picture of a page is a file of the repository."""
    missing = [
        link for link in LINK.findall(path.read_text(encoding="utf-8")) if not (path.parent / link).exists()
    ]
    assert missing == []


def examples() -> list[tuple[str, str]]:
    """The code blocks marked to be run, with the page they stand on."""
    found = []
    for path in PAGES:
        for match in FENCE.finditer(path.read_text(encoding="utf-8")):
            if match["info"].split() == ["python", "run"]:
                found.append((name(path), match["code"]))
    return found


@pytest.mark.parametrize(("page", "code"), examples(), ids=[page for page, _ in examples()])
def test_every_example_runs(page: str, code: str, tmp_path: Path) -> None:
    """A block marked `python run` runs as it stands, in an empty folder."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{page}:\n{done.stderr}"
    assert done.stdout.strip()


def test_there_are_examples_to_run() -> None:
    """The search for examples finds some, so that a new way of marking them cannot empty it."""
    assert examples()


def test_every_session_says_in_one_line_what_it_does() -> None:
    """`nox -l` is the table of contents: each session has a docstring of one line."""
    found = sessions()
    expected = {"build", "property", "pool", "gate", "diff", "accept", "tests", "lint", "types"}
    assert expected <= found.keys()
    assert [
        session for session, doc in found.items() if doc is None or "\n" in doc or not doc.endswith(".")
    ] == []


def test_every_lock_in_use_exists_and_is_pinned() -> None:
    """Each requirement of a lock has one version; all but torch's own file carry hashes."""
    for lock in sorted((ROOT / "locks").glob("*.txt")):
        lines = [line for line in lock.read_text(encoding="utf-8").splitlines() if line and line[0].isalnum()]
        assert lines, lock.name
        assert [line for line in lines if "==" not in line] == []
        if lock.name != "torch.txt":
            assert "--hash=sha256:" in lock.read_text(encoding="utf-8")
            assert [line for line in lines if not line.endswith("\\")] == []


def test_locks_agree_with_each_other() -> None:
    """The gate's own packages have the same versions in every environment."""
    pins: dict[str, dict[str, set[str]]] = {}
    for lock in ("gate", "stack", "lint"):
        text = (ROOT / "locks" / f"{lock}.txt").read_text(encoding="utf-8")
        for package, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", text, re.MULTILINE):
            pins.setdefault(package, {}).setdefault(lock, set()).add(version)
    assert [
        package for package, by in pins.items() if "gate" in by and len(set(map(frozenset, by.values()))) > 1
    ] == []
