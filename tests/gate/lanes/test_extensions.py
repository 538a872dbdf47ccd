"""Extensions of a lean arm: its own first, a bundled one next, an empty module last, and no other name."""

from __future__ import annotations

import importlib.machinery
from pathlib import Path

import pytest

from ci.lanes.extensions import NAMES, Empty, ExtensionFinder

NAME = NAMES[0]


def place(folder: Path) -> Path:
    """A file that is found as the extension."""
    file = folder / "vllm" / f"{NAME.rpartition('.')[2]}.abi3.so"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    return file


def test_the_arm_s_own_extension_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full arm is left as it is, whatever a bundle brought."""
    own = place(tmp_path / "arm")
    place(tmp_path / "bundle")
    monkeypatch.setenv("FORKPROOF_EXTENSIONS", str(tmp_path / "bundle"))
    spec = ExtensionFinder().find_spec(NAME, [str(own.parent)])
    assert spec is not None
    assert spec.origin == str(own)


def test_a_bundled_extension_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lean arm gets the one below the variable's folder, as compiled code."""
    bundled = place(tmp_path)
    monkeypatch.setenv("FORKPROOF_EXTENSIONS", str(tmp_path))
    spec = ExtensionFinder().find_spec(NAME, [])
    assert spec is not None
    assert spec.origin == str(bundled)
    assert isinstance(spec.loader, importlib.machinery.ExtensionFileLoader)


def test_without_either_the_module_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import succeeds and the module has nothing, so that a use of it fails by name."""
    monkeypatch.delenv("FORKPROOF_EXTENSIONS", raising=False)
    spec = ExtensionFinder().find_spec(NAME, [])
    assert spec is not None
    assert isinstance(spec.loader, Empty)


def test_other_names_are_not_touched() -> None:
    """The finder answers for the listed names alone."""
    assert ExtensionFinder().find_spec("vllm._moe_C_stable_libtorch", []) is None
