"""An installed tree as an arm: found by its folder or the one around it, identified by its surface files."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from ci.stack.installed import SURFACE, InstalledTreeError, installed_arm


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A site-packages folder with a small vllm in it."""
    for path in (*SURFACE, "vllm/__init__.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    (tmp_path / "vllm-0.27.1.dist-info").mkdir()
    return tmp_path


@pytest.mark.parametrize("inside", ["", "vllm"])
def test_package_folder_or_the_one_around_it(
    tree: Path, inside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both name the same tree, and its version comes from its metadata."""
    monkeypatch.setenv("VLLM_ROOT", str(tree / inside))
    arm = installed_arm()
    assert arm is not None
    assert (arm.name, arm.root, arm.manifest.vllm) == ("installed", tree, "0.27.1")
    assert set(arm.manifest.files) == set(SURFACE)


def test_the_identity_follows_the_files(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One changed surface file is another subject."""
    monkeypatch.setenv("VLLM_ROOT", str(tree))
    before = installed_arm()
    (tree / SURFACE[1]).write_text("patched")
    after = installed_arm()
    assert before is not None
    assert after is not None
    assert before.manifest.series_hash != after.manifest.series_hash


def test_a_kernel_in_a_file_of_its_own_is_part_of_the_identity(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What RECORD lacks, or lists with another hash, is named; a file as the wheel has it is not."""
    monkeypatch.setenv("VLLM_ROOT", str(tree))
    names = {name: f"vllm/v1/attention/ops/{name}.py" for name in ("wheel", "edited", "new")}
    for name, path in names.items():
        (tree / path).write_text(name)
    rows = [f"{names['wheel']},{sha256_of(b'wheel')},5", f"{names['edited']},{sha256_of(b'as built')},8"]
    (tree / "vllm-0.27.1.dist-info" / "RECORD").write_text("\n".join([*rows, "", "vllm/odd"]) + "\n")
    before = installed_arm()
    (tree / names["new"]).write_text("another kernel")
    after = installed_arm()
    assert before is not None
    assert after is not None
    assert set(before.manifest.files) == {*SURFACE, names["edited"], names["new"]}
    assert before.manifest.series_hash != after.manifest.series_hash


def sha256_of(data: bytes) -> str:
    """As RECORD writes it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def test_a_folder_without_vllm_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable and what is absent; without the variable there is no such arm."""
    monkeypatch.setenv("VLLM_ROOT", str(tmp_path))
    with pytest.raises(InstalledTreeError, match=r"VLLM_ROOT=.*no vllm/envs\.py"):
        installed_arm()
    monkeypatch.delenv("VLLM_ROOT")
    assert installed_arm() is None
