from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ci.stack import downloads
from ci.stack.downloads import Download, main, planned_downloads, size_note, strip_hashes
from ci.stack.errors import PipError
from ci.stack.pipcall import Found

MB = 1_000_000


def test_sizes_are_known_before_anything_is_downloaded(
    serve: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file on a server by its length, one in a folder by its size, largest first."""
    server = serve(b"x" * 70_000)
    (tmp_path / "local.whl").write_bytes(b"x" * 90)
    found = [
        Found("local", "1", (tmp_path / "local.whl").as_uri(), None),
        Found("remote", "2", server.url, None),
        Found("gone", "3", "ftp://host/gone.whl", None),
    ]
    monkeypatch.setattr(downloads, "dry_run", lambda *_: found)
    assert planned_downloads(["anything"], tmp_path) == [
        Download("remote", "2", 70_000, local=False),
        Download("local", "1", 90, local=True),
        Download("gone", "3", None, local=False),
    ]
    assert server.asked == [""]


def test_pip_sees_the_requirements_without_their_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With hashes, pip would download every file to check it, even in a dry run."""
    lock = tmp_path / "lock.txt"
    lock.write_text(
        "# made\na==1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via c\nb==2 --hash sha256:cc\n"
    )
    seen = []

    def look(arguments: Sequence[str], *_: object) -> list[Found]:
        seen.append((list(arguments[:-1]), Path(arguments[-1]).read_text()))
        return []

    monkeypatch.setattr(downloads, "dry_run", look)
    planned_downloads(["--no-deps", "-r", str(lock)], tmp_path)
    assert seen == [(["--no-deps", "-r"], "# made\na==1\n    # via c\nb==2\n")]
    assert strip_hashes("a==1\n") == "a==1\n"


def test_a_small_download_is_one_line() -> None:
    """The sum, the number and the largest; nothing to advise."""
    items = [
        Download("a", "1", 3 * MB, False),
        Download("b", "1", 200 * MB, False),
        Download("c", "1", 9 * MB, True),
    ]
    assert size_note(items) == "to download: 2 packages, 203 MB (b 200 MB, a 3 MB)"


def test_a_large_download_comes_with_a_way_to_less() -> None:
    """Above 500 MB the variables that point pip at a CPU build are named; local files do not count."""
    items = [Download("torch", "1", 501 * MB, False), Download("x", "1", None, False)]
    note = size_note(items)
    assert note.startswith("to download: 2 packages, 501 MB and 1 of unknown size (torch 501 MB)\n")
    assert "PIP_EXTRA_INDEX_URL" in note
    assert "PIP_FIND_LINKS" in note
    assert "PIP_EXTRA" not in size_note([Download("torch", "1", 501 * MB, True)])
    assert "PIP_EXTRA" not in size_note([Download("torch", "1", 500 * MB, False)])


def test_groups_are_summed_and_a_package_counts_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two calls of pip that both need triton download it once."""
    answers = {
        "-r a": [Download("triton", "3", 200 * MB, False)],
        "-r b": [Download("Triton", "3", 200 * MB, False)],
    }
    monkeypatch.setattr(downloads, "planned_downloads", lambda group: answers[" ".join(group)])
    assert main(["-r", "a", "--and", "-r", "b"]) == 0
    assert capsys.readouterr().out == "to download: 1 packages, 200 MB (Triton 200 MB)\n"


def test_unknown_sizes_do_not_stop_a_build(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is a courtesy: pip itself will say what is wrong."""

    def fail(group: Sequence[str]) -> list[Download]:
        raise PipError("pip: offline")

    monkeypatch.setattr(downloads, "planned_downloads", fail)
    assert main(["x"]) == 0
    assert capsys.readouterr().out == "sizes to download: unknown (pip: offline)\n"
