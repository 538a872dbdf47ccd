from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from ci.stack import pipcall
from ci.stack.errors import PipError
from ci.stack.pipcall import Found, dry_run, last_error, parse_report, pip_version


class FakePip:
    """Stands in for pip: answers by its version, and writes an empty report unless told to fail."""

    def __init__(self, version: str, failures: Sequence[str] = ()) -> None:
        self.version = version
        self.failures = list(failures)
        self.calls: list[tuple[list[str], dict[str, str]]] = []

    def __call__(self, python: str, arguments: Sequence[str], env: dict[str, str]) -> CompletedProcess[str]:
        """Answer like ``_pip``."""
        if list(arguments) == ["--version"]:
            return CompletedProcess([], 0, f"pip {self.version} from somewhere (python 3.11)\n", "")
        self.calls.append((list(arguments), env))
        if "--report" in arguments:
            if self.failures:
                return CompletedProcess([], 1, "", self.failures.pop(0))
            Path(arguments[list(arguments).index("--report") + 1]).write_text('{"install": []}')
        return CompletedProcess([], 0, "", "")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a FakePip in place of pip."""

    def install(version: str, failures: Sequence[str] = ()) -> FakePip:
        pip = FakePip(version, failures)
        monkeypatch.setattr(pipcall, "_pip", pip)
        return pip

    return install


@pytest.mark.parametrize(
    ("archive", "sha256"),
    [({"hash": "sha256=ab", "hashes": {"sha256": "cd"}}, "cd"), ({"hash": "sha256=ab"}, "ab"), ({}, None)],
)
def test_a_report_gives_name_place_and_hash(archive: dict[str, Any], sha256: str | None) -> None:
    """Both forms of pip's hash are read; none is None."""
    item = {"download_info": {"url": "u", "archive_info": archive}, "metadata": {"name": "x", "version": "1"}}
    assert parse_report({"install": [item]}) == [Found("x", "1", "u", sha256)]


def test_pip_is_asked_without_downloading(fake: Any, tmp_path: Path) -> None:
    """A dry run that reads metadata lazily, by the pip that is there."""
    pip = fake("26.3")
    assert dry_run(["vllm==1"], tmp_path) == []
    ((arguments, env),) = pip.calls
    assert arguments[:2] == ["install", "--dry-run"]
    assert arguments[-2:] == ["vllm==1", "--use-feature=fast-deps"]
    assert str(tmp_path) not in env.get("PYTHONPATH", "")


def test_an_old_pip_is_replaced_by_one_in_the_cache(fake: Any, tmp_path: Path) -> None:
    """pip 23.2 would download every file, so a recent one is fetched once and put before it."""
    pip = fake("23.2.1")
    dry_run(["vllm==1"], tmp_path)
    assert pip.calls[0][0][-2:] == [str(tmp_path / "pip"), "pip>=25,<27"]
    assert pip.calls[1][1]["PYTHONPATH"].split(":")[0] == str(tmp_path / "pip")
    (tmp_path / "pip/pip").mkdir(parents=True)
    (tmp_path / "pip/pip/__init__.py").write_text("")
    pip.calls.clear()
    dry_run(["vllm==1"], tmp_path)
    assert len(pip.calls) == 1


def test_a_pip_without_the_lazy_feature_is_asked_again(fake: Any, tmp_path: Path) -> None:
    """If a later pip drops the feature, the question is asked without it."""
    pip = fake("30.0", ["option --use-feature: invalid choice: 'fast-deps' (choose from ...)"])
    assert dry_run(["vllm==1"], tmp_path) == []
    assert "--use-feature=fast-deps" not in pip.calls[1][0]


@pytest.mark.parametrize(
    ("stderr", "cause"),
    [
        ("WARNING: x\nERROR: No matching distribution found for vllm==1\n", "no index or folder"),
        ("ERROR: NewConnectionError: Failed to establish a new connection\n", "the index cannot be reached"),
        ("ERROR: something else\n", None),
    ],
)
def test_what_pip_says_is_passed_on(stderr: str, cause: str | None, fake: Any, tmp_path: Path) -> None:
    """pip's last error is the message, with a likely cause where one is known."""
    fake("26.0", [stderr])
    with pytest.raises(PipError) as caught:
        dry_run(["vllm==1"], tmp_path)
    assert caught.value.what == f"pip: {last_error(stderr)}"
    assert (caught.value.cause or "").startswith(cause or "")


def test_a_python_without_pip_is_named(tmp_path: Path) -> None:
    """An environment made without pip gets the command that mends it."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(PipError, match="has no pip") as caught:
        pip_version(str(python))
    assert "ensurepip" in str(caught.value)


def test_the_version_of_a_real_pip() -> None:
    """The interpreter that runs the tests has a pip, and its version is read."""
    assert pip_version(sys.executable) > (20,)
