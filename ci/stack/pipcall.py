"""Ask pip where files are, without installing or downloading them.

Only pip knows its indexes, mirrors, constraints and folders; so it is asked, by
``pip install --dry-run --report``, and no index is named here.  Standard
library only (see ``net``).

pip before 23.3 downloads every file even in a dry run.  For such an
environment a recent pip (2 MB) is put in the cache folder and used instead.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.stack.errors import PipError

NO_DOWNLOAD_SINCE = (23, 3)
"""First pip whose dry run leaves the files where they are."""
LAZY = "--use-feature=fast-deps"
"""Read a wheel's metadata by range requests where the index does not serve it apart."""


@dataclass(frozen=True)
class Found:
    """A file that pip would install."""

    name: str
    version: str
    url: str
    sha256: str | None
    """As the index says; None if it says nothing."""


def dry_run(arguments: Sequence[str], cache: Path, python: str = sys.executable) -> list[Found]:
    """What ``pip install ARGUMENTS`` would take, and from where.

    Args:
        arguments: as on pip's command line.
        cache: folder in which a recent pip may be put.
        python: the interpreter whose pip and environment are meant.

    Raises:
        PipError: pip is absent, or says no; its own last words are in the message.
    """
    environment = _environment(cache, python)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = ["install", "--dry-run", "--quiet", "--report", str(report), *arguments]
        done = _pip(python, [*command, LAZY], environment)
        if done.returncode and "fast-deps" in done.stderr and "invalid choice" in done.stderr:
            done = _pip(python, command, environment)
        if done.returncode or not report.exists():
            raise PipError(f"pip: {last_error(done.stderr)}", cause=_cause(done.stderr))
        return parse_report(json.loads(report.read_text(encoding="utf-8")))


def list_versions(
    name: str, options: Sequence[str], cache: Path, python: str = sys.executable
) -> tuple[str, ...]:
    """Every release of ``name`` that pip sees, newest first, pre-releases left aside.

    Raises:
        PipError: pip is absent, or finds none.
    """
    done = _pip(python, ["index", "versions", name, *options], _environment(cache, python))
    match = re.search(r"^Available versions: (.+)$", done.stdout, re.MULTILINE)
    if done.returncode or match is None:
        raise PipError(f"pip: {last_error(done.stderr)}", cause=_cause(done.stderr))
    return tuple(match[1].replace(" ", "").split(","))


def parse_report(data: dict[str, Any]) -> list[Found]:
    """The files of pip's installation report (format 1)."""
    found = []
    for item in data["install"]:
        info = item["download_info"]
        archive = info.get("archive_info") or {}
        digest = (archive.get("hashes") or {}).get("sha256")
        if digest is None and str(archive.get("hash", "")).startswith("sha256="):
            digest = archive["hash"].removeprefix("sha256=")
        found.append(Found(item["metadata"]["name"], item["metadata"]["version"], info["url"], digest))
    return found


def last_error(stderr: str) -> str:
    """pip's last line that says ERROR, else its last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["no output"])[-1]


def pip_version(python: str = sys.executable) -> tuple[int, ...]:
    """Version of the pip of ``python``.

    Raises:
        PipError: it has none.
    """
    done = _pip(python, ["--version"], dict(os.environ))
    match = re.match(r"pip (\d+(?:\.\d+)*)", done.stdout)
    if done.returncode or match is None:
        raise PipError(
            f"{python} has no pip, which is asked where the wheel is",
            remedy=f"{python} -m ensurepip --upgrade   (or, with uv: uv pip install pip)",
        )
    return tuple(int(part) for part in match[1].split("."))


def _environment(cache: Path, python: str) -> dict[str, str]:
    """The environment for pip: with a recent pip from the cache if the installed one is too old."""
    environment = dict(os.environ)
    if pip_version(python) >= NO_DOWNLOAD_SINCE:
        return environment
    folder = cache / "pip"
    if not (folder / "pip" / "__init__.py").exists():
        wanted = ["install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target", str(folder)]
        done = _pip(python, [*wanted, "pip>=25,<27"], environment)
        if done.returncode:
            raise PipError(
                f"pip is too old to be asked without downloading, and a newer one cannot be had: "
                f"{last_error(done.stderr)}",
                remedy=f"{python} -m pip install --upgrade pip",
            )
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), environment.get("PYTHONPATH")]))
    return environment


def _pip(python: str, arguments: Sequence[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    env = {**env, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    command = [python, "-m", "pip", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", check=False)


def _cause(stderr: str) -> str | None:
    if re.search(
        r"NewConnectionError|Temporary failure|Failed to establish|ConnectTimeout|timed out", stderr
    ):
        return "the index cannot be reached from here"
    if "No matching distribution" in stderr or "Could not find a version" in stderr:
        return "no index or folder that pip is configured with (pip config list) has this release"
    return None
