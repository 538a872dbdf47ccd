from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ci.stack.cache import TEMPORARY, cache_root, locked, new_folder, remove
from ci.stack.errors import CacheError


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folder given, then FORKPROOF_CACHE, then the user's cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "forkproof"
    monkeypatch.setenv("FORKPROOF_CACHE", str(tmp_path / "own"))
    assert cache_root() == tmp_path / "own"
    assert cache_root(tmp_path / "given") == tmp_path / "given"
    monkeypatch.delenv("FORKPROOF_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_root() == tmp_path / "home/.cache/forkproof"


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """A failure in the middle leaves what was there, and nothing half-made."""
    final = tmp_path / "tree"
    with new_folder(final) as folder:
        (folder / "a").write_text("1")
        assert not final.exists()
    with pytest.raises(IsADirectoryError), new_folder(final) as folder:
        folder.write_text("a failure in the middle")
    assert (final / "a").read_text() == "1"
    with new_folder(final) as folder:
        (folder / "b").write_text("3")
    assert [item.name for item in final.iterdir()] == ["b"]
    assert [item.name for item in tmp_path.iterdir()] == ["tree"]


def test_leftovers_of_a_killed_build_are_swept(tmp_path: Path) -> None:
    """The next build in the same parent removes them."""
    (tmp_path / f"{TEMPORARY}dead/x").mkdir(parents=True)
    with new_folder(tmp_path / "tree"):
        pass
    assert [item.name for item in tmp_path.iterdir()] == ["tree"]


def test_one_process_holds_the_cache(tmp_path: Path) -> None:
    """A second process waits, says so, and gets its turn; a killed holder leaves no lock."""
    code = "import sys, time; from pathlib import Path; from ci.stack.cache import locked\n"
    code += "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    command = [sys.executable, "-c", code, str(tmp_path)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).resolve().parents[3])
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    waited = []

    def waiting() -> None:
        waited.append(True)
        holder.kill()

    with locked(tmp_path, waiting):
        assert waited == [True]
    holder.wait()
    holder.stdout.close()


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file in place of the folder is an error with a remedy."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match="cannot be used as cache"), locked(tmp_path / "file" / "cache"):
        pass


def test_removing_what_is_not_there_is_fine(tmp_path: Path) -> None:
    """Files, folders and nothing at all can be removed; a link is removed, not followed."""
    (tmp_path / "keep").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "keep")
    for name in ("link", "absent"):
        remove(tmp_path / name)
    assert [item.name for item in tmp_path.iterdir()] == ["keep"]
