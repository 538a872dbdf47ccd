from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from ci.results.reached import NeverReachedError, NotFromArmError, Reached

SOURCE = """
limit = 3

def rows(n):
    return n * 2

class Base:
    def plan(self, n):
        return rows(n)

    @staticmethod
    def fixed():
        return 16

class Backend(Base):
    @classmethod
    def build(cls):
        return cls().plan(1)
"""


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    """A module that lies in the folder of an arm."""
    path = tmp_path / "arm" / "kernels.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("kernels", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_calls_are_counted_and_answers_unchanged(module: ModuleType, tmp_path: Path) -> None:
    """The wrapper counts every call, passes the answer through and goes away when it is done."""
    original = module.rows
    counter = Reached(module, "rows", tmp_path / "arm")
    assert (module.rows(4), module.Base().plan(3), counter.calls) == (8, 6, 2)
    counter.restore()
    assert module.rows is original


def test_methods_of_every_kind_are_counted(module: ModuleType, tmp_path: Path) -> None:
    """Plain, static and class methods keep working while they are counted, also through a subclass."""
    root = tmp_path / "arm"
    plan = Reached(module.Backend, "plan", root)
    build = Reached(module.Backend, "build", root)
    fixed = Reached(module.Base, "fixed", root)
    assert (module.Backend.build(), module.Backend.fixed()) == (2, 16)
    assert (plan.calls, build.calls, fixed.calls) == (1, 1, 1)
    for counter in (plan, build, fixed):
        counter.restore()
    assert "plan" not in vars(module.Backend)


def test_a_function_from_elsewhere_is_refused(module: ModuleType, tmp_path: Path) -> None:
    """A vLLM installed beside the arm cannot pass for the arm; the message names its file."""
    with pytest.raises(NotFromArmError, match=r"kernels\.py, outside the arm"):
        Reached(module, "rows", tmp_path / "other-arm")


def test_a_path_that_only_begins_alike_is_refused(module: ModuleType, tmp_path: Path) -> None:
    """The arm's folder is compared part by part and not as text."""
    with pytest.raises(NotFromArmError, match="outside the arm"):
        Reached(module, "rows", tmp_path / "ar")


def test_without_an_arm_nothing_can_be_reached(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite started by hand is told how to start it."""
    monkeypatch.delenv("FORKPROOF_ARM_ROOT", raising=False)
    with pytest.raises(NotFromArmError) as caught:
        Reached(module, "rows")
    assert "python -m ci run" in str(caught.value)


def test_what_is_no_function_cannot_be_counted(module: ModuleType, tmp_path: Path) -> None:
    """Classes and numbers are refused, since a wrapper would change what they are."""
    for name in ("limit", "Backend"):
        with pytest.raises(NotFromArmError, match="only a Python function"):
            Reached(module, name, tmp_path / "arm")


def test_never_called_is_an_error(module: ModuleType, tmp_path: Path) -> None:
    """A wrapped function that nobody called makes the check worthless, and it says so."""
    counter = Reached(module, "rows", tmp_path / "arm")
    with pytest.raises(NeverReachedError, match=r"kernels\.rows was never called"):
        counter.require()
    module.rows(1)
    counter.require()
