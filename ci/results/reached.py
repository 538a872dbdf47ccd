"""Proof that a check called the arm's own code and not a copy of it.

A test wraps the function it means to exercise; the wrapper counts the calls,
and wrapping fails unless the function was defined in a file of the arm.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from ci.errors import GateError

ARM_ROOT_VARIABLE = "FORKPROOF_ARM_ROOT"


class NotFromArmError(GateError):
    """A function that a check wants to reach is not defined in a file of the arm."""


class NeverReachedError(GateError):
    """A check ended without one call of the production function it stands for."""


class Reached:
    """Counts the calls of one production function while it is wrapped.

    Args:
        owner: the module or class whose attribute the production code looks up.
        name: that attribute: a function, method, static or class method.
        arm_root: the arm's folder; by default the one the suite was started with.

    Raises:
        NotFromArmError: there is no arm, or the function comes from a file outside it.
    """

    def __init__(self, owner: ModuleType | type, name: str, arm_root: Path | None = None) -> None:
        self.owner = owner
        self.name = f"{owner.__name__}.{name}"
        self.calls = 0
        self._attribute = name
        self._stored = inspect.getattr_static(owner, name)
        self._inherited = name not in vars(owner)
        function = getattr(self._stored, "__func__", self._stored)
        if not isinstance(function, FunctionType):
            raise NotFromArmError(
                f"{self.name} is a {type(function).__name__}; only a Python function can be counted",
                remedy="wrap the Python function that launches or constructs it",
            )
        self.file = source_in_arm(function, self.name, arm_root)
        wrapped = self._counting(function)
        kind = type(self._stored)
        setattr(owner, name, kind(wrapped) if kind in {staticmethod, classmethod} else wrapped)

    def _counting(self, function: FunctionType) -> Callable[..., Any]:
        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through what the function takes
            self.calls += 1
            return function(*args, **kwargs)

        return counted

    def restore(self) -> None:
        """Put the function back as it was."""
        if self._inherited:
            delattr(self.owner, self._attribute)
        else:
            setattr(self.owner, self._attribute, self._stored)

    def require(self) -> None:
        """Raise NeverReachedError unless the function was called."""
        if self.calls == 0:
            raise NeverReachedError(
                f"{self.name} was never called, so this check says nothing about the arm",
                cause="the code under test takes another path, or looks the function up elsewhere",
                remedy="wrap it in the module that calls it",
            )


def source_in_arm(function: FunctionType, name: str, arm_root: Path | None = None) -> Path:
    """The file that defines ``function``, which must lie in the arm.

    Raises:
        NotFromArmError: there is no arm, or the file lies outside it.
    """
    root = arm_root or _arm_root(name)
    file = Path(inspect.unwrap(function).__code__.co_filename).resolve()
    if not file.is_relative_to(root.resolve()):
        raise NotFromArmError(
            f"{name} comes from {file}, outside the arm {root}",
            cause="another vLLM stands before the arm on the import path",
            remedy="run the suite with `python -m ci run`, in an environment without a vLLM of its own",
        )
    return file


def _arm_root(name: str) -> Path:
    value = os.environ.get(ARM_ROOT_VARIABLE)
    if not value:
        raise NotFromArmError(
            f"{name} cannot be traced to an arm: {ARM_ROOT_VARIABLE} is not set",
            remedy="run the suite with `python -m ci run SUITE --arm NAME`",
        )
    return Path(value)
