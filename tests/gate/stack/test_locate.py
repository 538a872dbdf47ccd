from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci.stack import locate, pipcall
from ci.stack.errors import PipError, WheelMismatchError, WheelNotFoundError
from ci.stack.locate import WheelSource, locate_wheel
from ci.stack.pipcall import Found


@pytest.fixture
def real_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Path], None]:
    """Let the real pip look in one folder, and nowhere else."""

    def point_at(folder: Path) -> None:
        for name, value in {"CONFIG_FILE": "/dev/null", "NO_INDEX": "1", "FIND_LINKS": str(folder)}.items():
            monkeypatch.setenv(f"PIP_{name}", value)
        monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
        monkeypatch.setattr(
            pipcall, "NO_DOWNLOAD_SINCE", (0,)
        )  # files in a folder are not downloaded by any pip

    return point_at


def test_pip_finds_the_wheel_in_a_folder(
    wheel: Any, tmp_path: Path, real_pip: Callable[[Path], None]
) -> None:
    """The x86_64 Linux wheel is found whatever this machine and Python are; the place is a file."""
    real_pip(wheel.path.parent)
    assert locate_wheel(wheel.pin, tmp_path).local == wheel.path


def test_a_wheel_that_is_nowhere(wheel: Any, tmp_path: Path, real_pip: Callable[[Path], None]) -> None:
    """pip's own words, and two ways to mend it."""
    real_pip(tmp_path)
    with pytest.raises(
        WheelNotFoundError, match=r"No matching distribution found for vllm==9\.9\.9"
    ) as caught:
        locate_wheel(wheel.pin, tmp_path)
    assert "PIP_INDEX_URL" in str(caught.value)
    assert wheel.pin.wheel in str(caught.value)


@pytest.mark.parametrize(
    ("name", "digest"),
    [("vllm-9.9.9-cp38-abi3-manylinux_2_28_x86_64.whl", "0" * 64), ("vllm-9.9.9+x.whl", None)],
)
def test_another_build_is_refused_before_it_is_fetched(
    name: str, digest: str | None, wheel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hash or file name that is not the pinned one stops at once."""
    answer = [Found("vllm", "9.9.9", f"https://host/{name}", digest)]
    monkeypatch.setattr(locate, "dry_run", lambda *_: answer)
    with pytest.raises(WheelMismatchError, match="pinned is"):
        locate_wheel(wheel.pin, tmp_path)


def test_an_index_without_hashes_is_accepted(
    wheel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RECORD vouches for the files later; the place is no local file."""
    url = f"https://host/{wheel.pin.wheel}"
    monkeypatch.setattr(locate, "dry_run", lambda *_: [Found("vllm", "9.9.9", url, None)])
    assert locate_wheel(wheel.pin, tmp_path) == WheelSource(url)
    assert WheelSource(url).local is None


def test_the_remedy_of_pip_comes_first(wheel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If pip itself is what is missing, that is what to mend."""

    def absent(*_: object) -> list[Found]:
        raise PipError("no pip", remedy="ensurepip")

    monkeypatch.setattr(locate, "dry_run", absent)
    with pytest.raises(WheelNotFoundError) as caught:
        locate_wheel(wheel.pin, tmp_path)
    assert caught.value.remedy == "ensurepip"


def test_a_path_with_spaces_is_a_path() -> None:
    """A file URL is decoded."""
    assert WheelSource("file:///a%20b/c.whl").local == Path("/a b/c.whl")


def test_a_file_for_several_platforms_is_asked_for_by_each() -> None:
    """pip takes one platform an option, a file name joins them by dots."""
    tags = locate.target_tags(["manylinux_2_17_x86_64.manylinux2014_x86_64"])
    assert tags[:4] == ["--platform", "manylinux_2_17_x86_64", "--platform", "manylinux2014_x86_64"]
