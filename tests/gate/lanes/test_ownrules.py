from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ci.lanes import ownrules
from ci.lanes.ownrules import OwnRulesError, unpack_rules

GOOD = {
    "ci/lanes/matrix.toml": b"matrix",
    "baselines/plan.toml": b"plan",
    "baselines/cpu/pool.jsonl": b"pool",
    "ci/cli.py": b"code",
    "baselines/cpu/deep/file": b"deep",
    "docs/a.md": b"page",
}


@pytest.fixture
def pack(tmp_path: Path) -> Callable[..., Path]:
    """An archive as GitHub makes it: everything in one folder."""

    def write(files: dict[str, bytes], *more: tarfile.TarInfo) -> Path:
        path = tmp_path / "a.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name, data in files.items():
                info = tarfile.TarInfo(f"us-it-a1a1/{name}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
            for info in more:
                archive.addfile(info)
        return path

    return write


def test_only_matrix_and_baselines_are_taken(pack: Callable[..., Path], tmp_path: Path) -> None:
    """No code of the commit comes near the report."""
    matrix, baselines = unpack_rules(pack(GOOD), tmp_path / "out")
    assert matrix.read_bytes() == b"matrix"
    found = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")}
    assert found == {"matrix.toml", "baselines/plan.toml", "baselines/cpu/pool.jsonl"}
    assert baselines == tmp_path / "out" / "baselines"


def test_links_and_paths_that_leave_are_left_aside(pack: Callable[..., Path], tmp_path: Path) -> None:
    """Whatever the archive says, nothing is written elsewhere or read through a link."""
    link = tarfile.TarInfo("us-it-a1a1/baselines/policy.toml")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    out = tarfile.TarInfo("us-it-a1a1/baselines/../../evil.toml")
    unpack_rules(pack(GOOD, link, out), tmp_path / "out")
    assert not (tmp_path / "out" / "baselines" / "policy.toml").exists()
    assert not list(tmp_path.rglob("evil*"))


@pytest.mark.parametrize("name", ["ci/lanes/matrix.toml", "baselines/plan.toml"])
def test_a_commit_without_rules_is_refused(pack: Callable[..., Path], tmp_path: Path, name: str) -> None:
    """An old branch is not held against nothing."""
    with pytest.raises(OwnRulesError, match="the commit has no"):
        unpack_rules(pack({key: data for key, data in GOOD.items() if key != name}), tmp_path / "out")


def test_a_damaged_archive_is_refused(pack: Callable[..., Path], tmp_path: Path) -> None:
    """Cut short, or no archive at all."""
    path = pack(GOOD)
    for data in (path.read_bytes()[:-40], b"not found"):
        path.write_bytes(data)
        with pytest.raises(OwnRulesError):
            unpack_rules(path, tmp_path / "out")


def test_sizes_are_limited(
    pack: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each file and of all."""
    for limit in ("MAX_FILE_BYTES", "MAX_TOTAL_BYTES"):
        monkeypatch.setattr(ownrules, limit, 5)
        with pytest.raises(OwnRulesError, match="too large"):
            unpack_rules(pack(GOOD), tmp_path / "out")
        monkeypatch.undo()
