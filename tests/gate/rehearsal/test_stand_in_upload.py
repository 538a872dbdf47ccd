from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from ci.rehearsal import stand_in_upload
from ci.rehearsal.world import VARIABLE


def upload(name: str, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> int:
    """Run the stand-in as a step would."""
    for variable, value in {
        VARIABLE: str(tmp_path / "world"),
        "UPLOAD_NAME": name,
        "UPLOAD_PATH": str(path),
        "UPLOAD_IF_NONE": "error",
        "GITHUB_WORKFLOW": "ci",
    }.items():
        monkeypatch.setenv(variable, value)
    return stand_in_upload.main()


def test_it_behaves_as_the_real_action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths start below the folder, hidden files stay behind, a second upload of a name is refused."""
    (tmp_path / "runs" / "cpu").mkdir(parents=True)
    (tmp_path / "runs" / "cpu" / "a").write_text("1")
    (tmp_path / "runs" / "cpu" / ".b").write_text("1")
    assert upload("run-1", tmp_path / "runs", monkeypatch, tmp_path) == 0
    with zipfile.ZipFile(tmp_path / "world" / "uploads" / "ci" / "run-1.zip") as archive:
        assert archive.namelist() == ["cpu/a"]
    assert upload("run-1", tmp_path / "runs", monkeypatch, tmp_path) == 1


@pytest.mark.parametrize("name", ["a/b", "a:b", "a|b", "a\nb"])
def test_names_that_the_real_action_refuses(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model's or suite's name in an artifact breaks a rehearsal as it would break the workflow."""
    (tmp_path / "a").write_text("1")
    assert upload(name, tmp_path / "a", monkeypatch, tmp_path) == 1


def test_nothing_to_upload_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `if-no-files-found: error` asks."""
    assert upload("run-1", tmp_path / "nowhere", monkeypatch, tmp_path) == 1
