"""Single files of the wheel: a few ranges, checked against RECORD, wherever the wheel is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci.stack.errors import RecordError, WheelMismatchError
from ci.stack.locate import WheelSource
from ci.stack.members import read_files
from ci.stack.progress import Silent


def one_file(wheel: Any) -> str:
    """A compiled file of the sample wheel."""
    return next(path for path in wheel.files if path.endswith(".so"))


def test_one_file_comes_by_ranges(wheel: Any, tmp_path: Path, serve: Callable[..., Any]) -> None:
    """Byte for byte, although it is not a file of the lean flavour."""
    server = serve(wheel.path.read_bytes())
    path = one_file(wheel)
    found = read_files(wheel.pin, [path], tmp_path, Silent(), lambda pin, cache: WheelSource(server.url))
    assert found == {path: wheel.files[path]}


def test_a_wheel_on_disk_is_read_there(wheel: Any, tmp_path: Path) -> None:
    """A find-links folder serves no HTTP."""
    path = one_file(wheel)
    source = WheelSource(wheel.path.as_uri())
    found = read_files(wheel.pin, [path], tmp_path, Silent(), lambda pin, cache: source)
    assert found == {path: wheel.files[path]}


def test_a_file_that_the_wheel_lacks_is_named(wheel: Any, tmp_path: Path) -> None:
    """RECORD decides what the wheel has."""
    source = WheelSource(wheel.path.as_uri())
    with pytest.raises(RecordError, match=r"vllm/none\.so: not a file"):
        read_files(wheel.pin, ["vllm/none.so"], tmp_path, Silent(), lambda pin, cache: source)


def test_without_ranges_the_way_is_named(wheel: Any, tmp_path: Path, serve: Callable[..., Any]) -> None:
    """A whole wheel is not downloaded in silence for one file."""
    server = serve(wheel.path.read_bytes(), ranges=False)
    with pytest.raises(WheelMismatchError, match="refuses range requests") as error:
        read_files(wheel.pin, [one_file(wheel)], tmp_path, Silent(), lambda p, c: WheelSource(server.url))
    assert "--flavour full" in str(error.value)
