from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from ci.errors import UsageError
from ci.results.drift import PatchState
from ci.stack import repin
from ci.stack.errors import DownloadError, RecordError, WheelMismatchError
from ci.stack.locate import WheelSource
from ci.stack.pin import PIN, PIN_FILE, Pin, parse_pin
from ci.stack.pipcall import Found
from ci.stack.progress import Silent
from ci.stack.repin import (
    Move,
    Unmet,
    exact,
    find_triton,
    find_unmet,
    locked_versions,
    pin_text,
    read_move,
    requirements,
    wheel_hash,
)
from ci.stack.series import Series, read_series

PATCH = "--- a/vllm/m.py\n+++ b/vllm/m.py\n@@ -4,3 +4,3 @@\n line 4\n-line 5\n+five\n line 6\n"
BEFORE = Pin("9.9.8", "vllm-9.9.8-cp38-abi3-manylinux_2_28_x86_64.whl", "a" * 64, "b" * 64, "1", "7")


@pytest.fixture
def series(make_series: Callable[..., Path]) -> Series:
    """One patch that the tiny wheel takes."""
    return read_series(make_series({"a.patch": PATCH}))


def move(wheel: Any, series: Series, tmp_path: Path, url: str | None = None, **more: Any) -> Move:
    """Move from BEFORE to the tiny wheel, in a folder or at ``url``."""
    release = dataclasses.replace(wheel.pin, record_sha256="", torch=BEFORE.torch, triton=BEFORE.triton)
    source = WheelSource(url or wheel.path.as_uri())
    given = {"version": "9.9.9", "locked": {}, "locate": lambda *_: (release, source), **more}
    return read_move(series=series, before=BEFORE, cache=tmp_path, progress=Silent(), **given)


def test_both_hashes_come_from_the_release(wheel: Any, series: Series, tmp_path: Path) -> None:
    """The new pin is the wheel's own, and the series is judged on it."""
    found = move(wheel, series, tmp_path)
    assert found.after == dataclasses.replace(wheel.pin, triton="7")
    assert found.before == BEFORE
    assert [fate.state for fate in found.fate.patches] == [PatchState.APPLIES]


def test_little_of_a_remote_wheel_is_fetched(
    wheel: Any, series: Series, tmp_path: Path, serve: Callable[..., Any]
) -> None:
    """RECORD, METADATA and the patched file, and not the libraries."""
    data = wheel.path.read_bytes()
    found = move(wheel, series, tmp_path, serve(data).url)
    assert found.after == dataclasses.replace(wheel.pin, triton="7")
    assert found.counted.bytes < len(data) / 2


def test_a_damaged_file_stops_it(
    wheel: Any, series: Series, tmp_path: Path, serve: Callable[..., Any]
) -> None:
    """Whatever was read has the hash that RECORD lists, or there is no new pin."""
    data = wheel.path.read_bytes()
    metadata = wheel.files["vllm-9.9.9.dist-info/METADATA"]
    assert metadata in data
    with pytest.raises(RecordError, match="METADATA"):
        move(wheel, series, tmp_path, serve(data.replace(metadata, metadata.swapcase())).url)


def test_a_server_that_fails_stops_it(
    wheel: Any, series: Series, tmp_path: Path, serve: Callable[..., Any]
) -> None:
    """No pin comes out of half an answer."""
    server = serve(wheel.path.read_bytes())
    server.fail = [404]
    with pytest.raises(DownloadError):
        move(wheel, series, tmp_path, server.url)


def test_torch_moves_with_the_wheel(wheel: Any, series: Series, tmp_path: Path) -> None:
    """The wheel's METADATA names torch, and torch its triton; neither is asked for if torch stays."""
    moved = dataclasses.replace(BEFORE, torch="0.9")
    release = dataclasses.replace(wheel.pin, record_sha256="")
    asked = []

    def triton_for(torch: str, pin: Pin, cache: Path) -> str:
        asked.append((torch, pin.vllm))
        return "8"

    found = read_move(
        "9.9.9", series, moved, tmp_path, Silent(), {"torch": "0.9", "triton": "7", "numpy": "1"},
        lambda *_: (release, WheelSource(wheel.path.as_uri())), triton_for,
    )  # fmt: skip
    assert (found.after.torch, found.after.triton) == ("1", "8")
    assert asked == [("1", "9.9.9")]
    assert found.unmet == (Unmet("torch", "0.9", "==1"), Unmet("triton", "7", "==8"))


def test_the_present_pin_is_no_move(wheel: Any, series: Series, tmp_path: Path) -> None:
    """Nothing is looked at, and nothing would be marked."""
    with pytest.raises(UsageError, match=r"the pin is vllm 9\.9\.8 already"):
        move(wheel, series, tmp_path, version="9.9.8")


def test_another_spelling_of_a_version_is_named(wheel: Any, series: Series, tmp_path: Path) -> None:
    """pip takes 9.9 for 9.9.0; the wheel's folders do not."""
    with pytest.raises(UsageError) as caught:
        move(wheel, series, tmp_path, version="9.9.9.0")
    assert caught.value.remedy == "name it so: 9.9.9"


def test_the_wheel_s_hash_is_known_or_there_is_no_pin(wheel: Any) -> None:
    """A file here is hashed; of a remote one the index has to say it; two answers are none."""
    here, there = WheelSource(wheel.path.as_uri()), WheelSource("https://host/x.whl")
    true = hashlib.sha256(wheel.path.read_bytes()).hexdigest()
    unknown = dataclasses.replace(wheel.pin, wheel_sha256="")
    assert wheel_hash(unknown, here) == true
    assert wheel_hash(wheel.pin, here) == wheel_hash(wheel.pin, there) == true
    with pytest.raises(WheelMismatchError, match="does not say"):
        wheel_hash(unknown, there)
    with pytest.raises(WheelMismatchError, match="pip was told"):
        wheel_hash(dataclasses.replace(wheel.pin, wheel_sha256="0" * 64), here)


def test_requirements_are_read_for_the_wheel_s_platform() -> None:
    """Extras, other systems and lines that nobody can read are left aside; two lines of one name add up."""
    text = (
        "Name: x\n"
        "Requires-Dist: Typing_Extensions>=4\n"
        "Requires-Dist: typing-extensions<5\n"
        'Requires-Dist: winlib==1; sys_platform == "win32"\n'
        'Requires-Dist: triton~=3.8.0; platform_system == "Linux" and python_version < "3.15"\n'
        'Requires-Dist: more; extra == "all"\n'
        "Requires-Dist: ???\n"
        "\n"
        "Requires-Dist: body==1\n"
    )
    assert requirements(text) == {
        "typing-extensions": SpecifierSet(">=4,<5"),
        "triton": SpecifierSet("~=3.8.0"),
    }


@pytest.mark.parametrize("wanted", [{}, {"torch": ">=2"}, {"torch": "==2.*"}, {"torch": "==2.1,==2.2"}])
def test_a_torch_that_is_not_pinned_stops_it(wanted: dict[str, str]) -> None:
    """A version is never made up."""
    with pytest.raises(WheelMismatchError, match="does not name one version of torch"):
        exact({name: SpecifierSet(text) for name, text in wanted.items()}, "torch", "the wheel")


def test_a_local_part_is_no_part_of_the_pin() -> None:
    """2.14.0+cu130 is torch 2.14.0, of which every lane has its own build."""
    assert exact({"torch": SpecifierSet("==2.14.0+cu130")}, "torch", "the wheel") == "2.14.0"


@pytest.mark.parametrize(
    ("line", "found"), [("triton~=3.8.0", "3.8.2"), ("triton==3.8.0", "3.8.0"), ("triton>=4", None)]
)
def test_the_newest_triton_that_torch_takes(
    line: str, found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of those that pip sees."""
    monkeypatch.setattr(repin, "read_torch_metadata", lambda *_: f"Name: torch\nRequires-Dist: {line}\n")
    monkeypatch.setattr(repin, "list_versions", lambda *_: ("3.10.0", "3.8.2", "3.8.0"))
    if found is None:
        with pytest.raises(WheelMismatchError, match="no triton >=4"):
            find_triton("2.14.0", BEFORE, tmp_path)
    else:
        assert find_triton("2.14.0", BEFORE, tmp_path) == found


def test_a_torch_without_triton_is_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU build says nothing about what GPUs get."""
    monkeypatch.setattr(repin, "read_torch_metadata", lambda *_: "Name: torch\n")
    with pytest.raises(WheelMismatchError, match="takes no triton") as caught:
        find_triton("2.14.0", BEFORE, tmp_path)
    assert "unset PIP_EXTRA_INDEX_URL" in str(caught.value)


def test_torch_is_asked_without_fetching_it(
    wheel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Any]
) -> None:
    """Any wheel will do for the reader: METADATA comes out, by ranges or from a file."""
    for url in (serve(wheel.path.read_bytes()).url, wheel.path.as_uri()):
        monkeypatch.setattr(repin, "dry_run", lambda *_, url=url: [Found("torch", "1", url, None)])
        assert "Name: vllm" in repin.read_torch_metadata("1", ["--platform", "x"], tmp_path)


def test_locks_are_read_and_held_against_the_wheel() -> None:
    """Only what is locked can fail, whatever way its name is spelt."""
    locked = locked_versions("torch==2.13.0\n", "Some_Thing==1 \\\n    --hash=sha256:00\nnumpy==2.0 ; x\n")
    assert locked == {"torch": "2.13.0", "some-thing": "1", "numpy": "2.0"}
    wanted = {
        "torch": SpecifierSet("==2.14.0"),
        "numpy": SpecifierSet(">=1"),
        "absent": SpecifierSet("==1"),
        "some-thing": SpecifierSet("<1"),
    }
    assert find_unmet(wanted, locked) == (
        Unmet("some-thing", "1", "<1"),
        Unmet("torch", "2.13.0", "==2.14.0"),
    )


def test_the_pin_file_keeps_its_comments() -> None:
    """Values change, and every other line stays."""
    text = PIN_FILE.read_text(encoding="utf-8")
    after = Pin("9.9.9", "vllm-9.9.9-x.whl", "0" * 64, "1" * 64, "2.99.0", "3.99.0")
    new = pin_text(text, after)
    assert parse_pin(new) == after
    assert pin_text(new, PIN) == text
    assert [line for line in new.splitlines() if line.startswith("#")] == [
        line for line in text.splitlines() if line.startswith("#")
    ]


def test_a_pin_file_of_another_shape_is_not_guessed_at() -> None:
    """A line that cannot be found is not left as it was in silence."""
    text = PIN_FILE.read_text(encoding="utf-8").replace("torch = ", "torch  = ")
    with pytest.raises(UsageError, match="another shape"):
        pin_text(text, dataclasses.replace(PIN, torch="9"))
