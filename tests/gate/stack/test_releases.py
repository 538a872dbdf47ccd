from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci.errors import UsageError
from ci.stack import releases
from ci.stack.errors import DownloadError, RecordError
from ci.stack.locate import WheelSource
from ci.stack.pipcall import Found
from ci.stack.releases import check_version, locate_release, open_release, since


def test_releases_since_the_pin_are_ordered_as_versions() -> None:
    """0.30 comes after 0.9, older ones are left out, and the pin is there even if pip lists it no more."""
    assert since("0.9.1", ["0.30.0", "0.9.0", "0.10.1", "0.9.2"]) == ("0.9.1", "0.9.2", "0.10.1", "0.30.0")


def test_only_the_file_asked_for_is_fetched(wheel: Any, serve: Callable[..., Any], tmp_path: Path) -> None:
    """Directory, RECORD and one file: a fraction of the wheel; the second look comes from the folder."""
    source = WheelSource(serve(wheel.path.read_bytes()).url)
    release = dataclasses.replace(wheel.pin, record_sha256="")
    with open_release(release, source, tmp_path) as (tree, counted):
        assert tree.read("vllm/m.py") == wheel.files["vllm/m.py"]
        assert tree.read("vllm/nowhere.py") is None
        assert tree.record_sha256 == wheel.pin.record_sha256
        before = counted.requests
        assert tree.read("vllm/m.py") == wheel.files["vllm/m.py"]
        assert counted.requests == before
        assert counted.bytes < len(wheel.path.read_bytes()) / 2
    kept = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert kept == ["m.py"]


def test_a_kept_file_that_was_damaged_is_fetched_again(wheel: Any, tmp_path: Path) -> None:
    """What lies in the cache is checked against RECORD each time."""
    with open_release(wheel.pin, WheelSource(wheel.path.as_uri()), tmp_path) as (tree, _):
        tree.read("vllm/m.py")
        (kept,) = list(tmp_path.rglob("m.py"))
        kept.write_bytes(b"damaged")
        assert tree.read("vllm/m.py") == wheel.files["vllm/m.py"]


def test_the_pinned_release_is_held_to_its_pinned_record(wheel: Any, tmp_path: Path) -> None:
    """Another RECORD under the pinned version is refused."""
    pin = dataclasses.replace(wheel.pin, record_sha256="0" * 64)
    with (
        pytest.raises(RecordError, match="pinned is"),
        open_release(pin, WheelSource(wheel.path.as_uri()), tmp_path),
    ):
        pass


def test_a_server_without_ranges_is_refused(wheel: Any, serve: Callable[..., Any], tmp_path: Path) -> None:
    """No whole wheel is fetched behind the user's back."""
    source = WheelSource(serve(wheel.path.read_bytes(), ranges=False).url)
    with pytest.raises(DownloadError, match="no range requests"), open_release(wheel.pin, source, tmp_path):
        pass


def test_a_release_is_found_by_its_version(
    wheel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name and hash of the wheel come from pip; its RECORD is not known yet."""
    found = Found("vllm", "10.0.0", "https://host/vllm-10.0.0-cp38-abi3-linux.whl", "ab" * 32)
    monkeypatch.setattr(releases, "find_wheel", lambda *_: found)
    release, source = locate_release("10.0.0", wheel.pin, tmp_path)
    assert (release.vllm, release.wheel_sha256, release.record_sha256) == ("10.0.0", "ab" * 32, "")
    assert release.dist_info == "vllm-10.0.0.dist-info"
    assert source.url == found.url


@pytest.mark.parametrize("text", ["../x", "0.28.0/..", "", "v0.28", "0.28.0 ", "-r x"])
def test_what_is_no_version_never_becomes_a_path_or_an_option(text: str) -> None:
    """A version stands in a file name and on pip's command line."""
    with pytest.raises(UsageError):
        check_version(text)
    assert check_version("0.28.0.post1") == "0.28.0.post1"
