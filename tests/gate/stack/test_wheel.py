from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci.stack.errors import RecordError, StackError, WheelMismatchError
from ci.stack.locate import WheelSource
from ci.stack.progress import Silent
from ci.stack.ranges import TAIL_BYTES
from ci.stack.record import Flavour
from ci.stack.wheel import StockTree, stock_tree

LEAN = {".py", "METADATA", "WHEEL", "RECORD"}


def fetch(wheel: Any, cache: Path, url: str, flavour: Flavour = Flavour.LEAN) -> StockTree:
    """Make the stock tree from the wheel at ``url``."""
    return stock_tree(wheel.pin, flavour, cache, Silent(), lambda pin, folder: WheelSource(url))


def nothing_there(pin: Any, cache: Path) -> WheelSource:
    """A locate function for a cache that must not need one."""
    raise AssertionError("the cache was whole, and the wheel was looked for")


def content(root: Path) -> dict[str, bytes]:
    """Every file under ``root``."""
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def lean_files(wheel: Any) -> dict[str, bytes]:
    """What the lean flavour has of the wheel."""
    return {path: data for path, data in wheel.files.items() if path.endswith(tuple(LEAN))}


def test_the_lean_tree_comes_by_ranges(wheel: Any, tmp_path: Path, serve: Callable[..., Any]) -> None:
    """The .py files and metadata, byte for byte, without the bytes of the large files between them."""
    data = wheel.path.read_bytes()
    server = serve(data)
    tree = fetch(wheel, tmp_path, server.url)
    assert content(tree.root) == lean_files(wheel)
    assert all(asked.startswith("bytes=") for asked in server.asked)
    assert tree.counted.bytes < TAIL_BYTES + 2048 < len(data) // 2
    assert tree.counted.requests == len(server.asked) <= 5
    assert tree.notes == ()
    assert (tree.root / "vllm/m.py").stat().st_mode & 0o777 == 0o444


def test_without_ranges_the_whole_wheel_is_taken_and_it_says_so(
    wheel: Any, tmp_path: Path, serve: Callable[..., Any]
) -> None:
    """The fallback gives the same tree, a note, and a wheel in the cache that the next flavour uses."""
    server = serve(wheel.path.read_bytes(), ranges=False)
    tree = fetch(wheel, tmp_path, server.url)
    assert content(tree.root) == lean_files(wheel)
    assert tree.notes == ("the server refuses range requests: the whole wheel is downloaded",)
    assert tree.counted.bytes == wheel.path.stat().st_size
    assert not list(tmp_path.rglob("*.part"))
    full = stock_tree(wheel.pin, Flavour.FULL, tmp_path, Silent(), nothing_there)
    assert content(full.root) == wheel.files
    assert (full.root / "vllm/vllm_tool").stat().st_mode & 0o777 == 0o555


def test_a_cut_download_is_taken_up_again(wheel: Any, tmp_path: Path, serve: Callable[..., Any]) -> None:
    """A connection that breaks off is repeated, and only a whole file counts."""
    server = serve(wheel.path.read_bytes())
    server.cut = 1
    assert content(fetch(wheel, tmp_path, server.url, Flavour.FULL).root) == wheel.files


def test_a_wheel_in_a_folder_is_read_in_place(wheel: Any, tmp_path: Path) -> None:
    """pip's folder of wheels serves as well as an index; nothing is copied."""
    for flavour in Flavour:
        tree = fetch(wheel, tmp_path, wheel.path.as_uri(), flavour)
        assert content(tree.root) == (wheel.files if flavour is Flavour.FULL else lean_files(wheel))
        assert tree.notes == (f"the wheel is read from {wheel.path}",)
    assert not (tmp_path / "wheels").exists()


def test_a_whole_cache_needs_no_network(wheel: Any, tmp_path: Path) -> None:
    """The second time nothing is looked for, and nothing transferred."""
    first = fetch(wheel, tmp_path, wheel.path.as_uri())
    again = stock_tree(wheel.pin, Flavour.LEAN, tmp_path, Silent(), nothing_there)
    assert (again.root, again.counted.requests, again.notes) == (first.root, 0, ())


@pytest.mark.parametrize("damage", ["change", "remove", "add", "record"])
def test_a_damaged_cache_is_noticed_and_made_anew(damage: str, wheel: Any, tmp_path: Path) -> None:
    """A changed, missing or extra file, or another RECORD: named in a note, and mended."""
    root = fetch(wheel, tmp_path, wheel.path.as_uri()).root
    victim = {"add": "vllm/extra.py", "record": f"{wheel.pin.dist_info}/RECORD"}.get(damage, "vllm/m.py")
    (root / victim).unlink(missing_ok=True)
    if damage != "remove":
        (root / victim).write_bytes(b"x")
    again = fetch(wheel, tmp_path, wheel.path.as_uri())
    assert "was damaged" in again.notes[0]
    assert victim.rpartition("/")[2] in again.notes[0]
    assert content(again.root) == lean_files(wheel)
    assert len(list((tmp_path / "trees").iterdir())) == 1


@pytest.mark.parametrize("flavour", Flavour)
def test_another_wheel_is_refused_and_leaves_nothing(
    flavour: Flavour, wheel: Any, tmp_path: Path, serve: Callable[..., Any]
) -> None:
    """A wheel of other content stops at its RECORD or its hash; no tree, no wheel, no part of one."""
    other = replace(wheel, pin=replace(wheel.pin, record_sha256="0" * 64, wheel_sha256="0" * 64))
    server = serve(wheel.path.read_bytes())
    with pytest.raises((RecordError, WheelMismatchError), match="pinned is"):
        fetch(other, tmp_path, server.url, flavour)
    assert not [item for item in tmp_path.rglob("*") if item.is_file()]


def test_a_damaged_member_is_refused(wheel: Any, tmp_path: Path, serve: Callable[..., Any]) -> None:
    """One flipped byte inside a .py file of the wheel is found out, by ranges too."""
    data = bytearray(wheel.path.read_bytes())
    at = data.index(b"vllm/n.py") + len("vllm/n.py") + 4
    data[at] ^= 255
    with pytest.raises(RecordError, match=r"vllm/n\.py"):
        fetch(wheel, tmp_path, serve(bytes(data)).url)
    assert list((tmp_path / "trees").iterdir()) == []


def test_a_repacked_wheel_is_refused(wheel: Any, tmp_path: Path, serve: Callable[..., Any]) -> None:
    """Another file of the same length, with a sound zip around it and the genuine RECORD, does not pass."""
    repacked = tmp_path / wheel.pin.wheel
    with zipfile.ZipFile(repacked, "w") as archive:
        for name, data in wheel.files.items():
            archive.writestr(name, data.replace(b"line 6", b"line 9") if name == "vllm/n.py" else data)
    with pytest.raises(RecordError, match=r"vllm/n\.py: sha256"):
        fetch(wheel, tmp_path / "cache", serve(repacked.read_bytes()).url)
    assert list((tmp_path / "cache/trees").iterdir()) == []


@pytest.mark.parametrize("data", [b"", b"<html>not a wheel</html>" * 50])
def test_no_wheel_at_all(data: bytes, wheel: Any, tmp_path: Path) -> None:
    """An error page in place of the wheel is a clear error."""
    (tmp_path / wheel.pin.wheel).write_bytes(data)
    with pytest.raises(StackError, match="no readable wheel"):
        fetch(wheel, tmp_path / "cache", (tmp_path / wheel.pin.wheel).as_uri())
