from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ci.stack import arms, cache
from ci.stack.arms import Build, build
from ci.stack.errors import CacheError, ContextMismatchError, StackError, UnlistedPatchError
from ci.stack.locate import WheelSource
from ci.stack.manifest import FilePair, Offset, read_manifest
from ci.stack.record import Flavour
from ci.stack.tree import walk_files

ONE = "--- a/vllm/m.py\n+++ b/vllm/m.py\n@@ -5,3 +5,3 @@\n line 5\n-line 6\n+line SIX\n line 7\n"
TWO = (
    "--- a/n.py\n+++ b/n.py\n@@ -2,3 +2,3 @@\n line 5\n-line 6\n+line 66\n line 7\n"
    "--- /dev/null\n+++ b/v1/added.py\n@@ -0,0 +1 @@\n+new\n"
    "--- a/v1/crlf.py\n+++ /dev/null\n@@ -1,12 +0,0 @@\n" + "".join(f"-line {n}\r\n" for n in range(1, 13))
)
BAD = ONE.replace("line 7", "line seven").replace("m.py", "n.py")

Make = Callable[..., Build]


@pytest.fixture
def make(wheel: Any, tmp_path: Path) -> Make:
    """Build arms of a folder of patches from the tiny wheel."""

    def run(folder: Path, names: list[str] | None = None, flavour: Flavour = Flavour.LEAN) -> Build:
        return build(
            folder,
            tmp_path / "cache",
            flavour,
            names,
            None,
            wheel.pin,
            lambda *_: WheelSource(wheel.path.as_uri()),
        )

    return run


def digest(data: bytes) -> str:
    """sha256 in hexadecimal."""
    return sha256(data).hexdigest()


def snapshot(root: Path) -> dict[str, bytes]:
    """Every file under ``root``, by relative path."""
    return {path: (root / path).read_bytes() for path in walk_files(root)}


def test_arms_differ_in_exactly_the_files_that_their_manifests_name(
    wheel: Any, make: Make, make_series: Callable[..., Path]
) -> None:
    """Changed, added and removed files carry both hashes; everything else is stock, byte for byte."""
    done = make(make_series({"1.patch": ONE, "2.patch": TWO}))
    stock, one, both = done.arms
    assert [arm.name for arm in done.arms] == ["stock", "1", "patched"]
    assert (stock.manifest.files, stock.manifest.patches) == ({}, [])
    text = wheel.files["vllm/m.py"]
    first = FilePair(digest(text), digest(text.replace(b"line 6\n", b"line SIX\n")))
    assert one.manifest.files == {"vllm/m.py": first}
    assert both.manifest.files == {
        "vllm/m.py": first,
        "vllm/n.py": FilePair(digest(text), digest(text.replace(b"line 6\n", b"line 66\n"))),
        "vllm/v1/added.py": FilePair(None, digest(b"new\n")),
        "vllm/v1/crlf.py": FilePair(digest(wheel.files["vllm/v1/crlf.py"]), None),
    }
    for arm in (one, both):
        here, there = snapshot(arm.root), snapshot(stock.root)
        differing = {path for path in here.keys() | there.keys() if here.get(path) != there.get(path)}
        assert differing - {"arm.json"} == arm.manifest.files.keys()
        assert {path: digest(here[path]) for path in differing & here.keys() - {"arm.json"}} == {
            path: pair.patched for path, pair in arm.manifest.files.items() if pair.patched
        }


def test_the_manifest_says_what_the_arm_is(wheel: Any, make: Make, make_series: Callable[..., Path]) -> None:
    """Wheel, flavour, patches with both hashes, and every hunk at an offset; readable again from the arm."""
    folder = make_series({"1.patch": ONE, "2.patch": TWO})
    done = make(folder)
    manifest = read_manifest(done.arms[-1].root)
    assert manifest == done.arms[-1].manifest
    assert (manifest.arm, manifest.vllm, manifest.flavour) == ("patched", "9.9.9", "lean")
    assert manifest.wheel_sha256 == wheel.pin.wheel_sha256
    assert [(entry.name, entry.file_hash) for entry in manifest.patches] == [
        ("1.patch", digest(ONE.encode())),
        ("2.patch", digest(TWO.encode())),
    ]
    assert manifest.offsets == [Offset("2.patch", "vllm/n.py", 1, 2, 5)]
    assert [place.offset for place in done.placements] == [0, 3, 0]


def test_unchanged_files_are_shared_and_changed_ones_are_not(
    make: Make, make_series: Callable[..., Path]
) -> None:
    """A link where nothing changed; a patched file has its own bytes on disk."""
    done = make(make_series({"1.patch": ONE}))
    stock, patched = (arm.root for arm in done.arms)
    assert (stock / "vllm/n.py").samefile(patched / "vllm/n.py")
    assert (stock / "vllm/n.py").samefile(done.stock.root / "vllm/n.py")
    assert not (stock / "vllm/m.py").samefile(patched / "vllm/m.py")
    assert b"line 6\n" in (done.stock.root / "vllm/m.py").read_bytes()


def test_without_hard_links_files_are_copied(
    monkeypatch: pytest.MonkeyPatch, make: Make, make_series: Callable[..., Path]
) -> None:
    """A file system that has no links costs space, nothing else; the copies are found whole again."""

    def refuse(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr("ci.stack.arms.os.link", refuse)
    folder = make_series({"1.patch": ONE})
    done = make(folder)
    assert snapshot(done.arms[0].root).keys() - {"arm.json"} == done.stock.expected.keys()
    assert [arm.reused for arm in make(folder).arms] == [True, True]


def test_a_second_build_uses_what_is_there(make: Make, make_series: Callable[..., Path]) -> None:
    """The same series and wheel give the same folders without building."""
    folder = make_series({"1.patch": ONE})
    first, second = make(folder), make(folder)
    assert [arm.reused for arm in first.arms + second.arms] == [False, False, True, True]
    assert [arm.root for arm in first.arms] == [arm.root for arm in second.arms]


def test_a_reworded_header_builds_nothing_but_is_recorded(
    make: Make, make_series: Callable[..., Path]
) -> None:
    """The arm stays; its manifest takes the new hash of the whole file."""
    make(make_series({"1.patch": ONE}))
    again = make(make_series({"1.patch": "Why: better words.\n\n" + ONE})).arms[-1]
    assert again.reused
    assert read_manifest(again.root).patches[0].file_hash == digest(b"Why: better words.\n\n" + ONE.encode())


def test_other_line_numbers_that_place_a_hunk_elsewhere_give_another_arm(
    wheel: Any, make: Make, make_series: Callable[..., Path]
) -> None:
    """The series hash leaves line numbers out, so what they decide is compared as well."""
    insert = "--- a/vllm/m.py\n+++ b/vllm/m.py\n@@ -1,3 +1,13 @@\n line 1\n line 2\n"
    insert += "".join(f"+line {n}\n" for n in (5, 6, 7)) + "+a\n+a\n+a\n+a\n+a\n+a\n+a\n line 3\n"
    near = "--- a/vllm/m.py\n+++ b/vllm/m.py\n@@ -{0},3 +{0},3 @@\n line 5\n-line 6\n+line SIX\n line 7\n"
    first = make(make_series({"1.patch": insert, "2.patch": near.format(3)})).arms[-1]
    second = make(make_series({"1.patch": insert, "2.patch": near.format(15)})).arms[-1]
    assert first.manifest.series_hash == second.manifest.series_hash
    assert not second.reused
    assert first.manifest.files != second.manifest.files
    assert digest((second.root / "vllm/m.py").read_bytes()) == second.manifest.files["vllm/m.py"].patched


def test_a_failing_patch_leaves_no_arm_and_spoils_none(
    tmp_path: Path, make: Make, make_series: Callable[..., Path]
) -> None:
    """The second of two patches fails: the arms of an earlier series stay, no new folder appears."""
    make(make_series({"1.patch": ONE}))
    before = snapshot(tmp_path / "cache/arms")
    with pytest.raises(ContextMismatchError, match=r"2\.patch.*hunk 1"):
        make(make_series({"1.patch": ONE.replace("SIX", "6th"), "2.patch": BAD}))
    assert snapshot(tmp_path / "cache/arms") == before
    assert not list((tmp_path / "cache").rglob(".new-*"))


def test_an_arm_before_the_failing_patch_can_be_had(make: Make, make_series: Callable[..., Path]) -> None:
    """Stock can be built to compare with, whatever the state of the series."""
    folder = make_series({"1.patch": ONE, "2.patch": BAD})
    assert [arm.name for arm in make(folder, ["stock", "1"]).arms] == ["stock", "1"]


def test_a_series_error_stops_before_anything_is_touched(
    tmp_path: Path, make: Make, make_series: Callable[..., Path]
) -> None:
    """No cache folder appears, no wheel is looked for."""
    with pytest.raises(UnlistedPatchError):
        make(make_series({"1.patch": ONE, "2.patch": TWO}, "1.patch\n"))
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("damage", ["patched", "unpatched", "missing", "extra", "manifest", "half"])
def test_a_damaged_arm_is_made_anew(damage: str, make: Make, make_series: Callable[..., Path]) -> None:
    """Whatever is wrong with an arm, the next build gives a whole one, and leaves the stock tree alone."""
    folder = make_series({"1.patch": ONE})
    done = make(folder)
    arm, whole = done.arms[-1], snapshot(done.arms[-1].root)
    name = {"patched": "vllm/m.py", "manifest": "arm.json", "extra": "vllm/more.py"}.get(damage, "vllm/n.py")
    (arm.root / name).unlink(missing_ok=True)
    if damage == "half":
        shutil.rmtree(arm.root / "vllm")
    elif damage != "missing":
        (arm.root / name).write_bytes(b"{}")
    again = make(folder)
    assert again.arms[-1].reused == (damage == "manifest")
    assert again.stock.notes == ()
    assert snapshot(again.arms[-1].root) == whole


def test_two_builds_at_once_do_not_disturb_each_other(make: Make, make_series: Callable[..., Path]) -> None:
    """Both end with whole arms in the same folders."""
    folder = make_series({"1.patch": ONE, "2.patch": TWO})
    results: list[Build] = []
    threads = [threading.Thread(target=lambda: results.append(make(folder))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(arm.root for arm in result.arms) for result in results}) == 1
    assert sorted(result.arms[0].reused for result in results) == [False, True, True, True]


def test_the_cache_may_lie_inside_a_checkout(
    tmp_path: Path, make: Make, make_series: Callable[..., Path]
) -> None:
    """Nothing here depends on whether a repository is around the tree."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    assert b"line SIX\n" in (make(make_series({"1.patch": ONE})).arms[-1].root / "vllm/m.py").read_bytes()


def test_the_full_flavour_has_the_compiled_files(make: Make, make_series: Callable[..., Path]) -> None:
    """Lean and full arms of one series stand side by side."""
    folder = make_series({"1.patch": ONE})
    lean, full = make(folder).arms[-1], make(folder, None, Flavour.FULL).arms[-1]
    assert lean.root != full.root
    assert ((lean.root / "vllm/_C.abi3.so").exists(), (full.root / "vllm/_C.abi3.so").exists()) == (
        False,
        True,
    )


def test_find_arm_builds_what_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make: Make, make_series: Callable[..., Path]
) -> None:
    """One arm by name, the rest left aside."""
    folder = make_series({"1.patch": ONE})
    built = make(folder, ["patched"])
    monkeypatch.setattr(arms, "build", lambda *_: built)
    assert arms.find_arm("patched", folder, tmp_path / "cache").root == built.arms[0].root


def test_arms_up_to_one_are_the_shorter_prefixes_and_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make: Make, make_series: Callable[..., Path]
) -> None:
    """A check that compares arms gets every earlier one, and the one it asked for last."""
    folder = make_series({"1.patch": ONE})
    asked: list[list[str]] = []

    def build(*arguments: Any) -> Any:
        asked.append(arguments[3])
        return make(folder, arguments[3])

    monkeypatch.setattr(arms, "build", build)
    found = arms.find_arms_up_to("patched", folder, tmp_path / "cache")
    assert asked == [["stock", "patched"]]
    assert [arm.name for arm in found] == ["stock", "patched"]
    assert [arm.name for arm in arms.find_arms_up_to("stock", folder, tmp_path / "cache")] == ["stock"]
    (folder / "arms.toml").write_text('[arms]\nlast = "1.patch"\n')
    assert [arm.name for arm in arms.find_arms_up_to(None, folder, tmp_path / "cache")][-1] == "last"


def test_a_manifest_of_another_schema_is_refused(make: Make, make_series: Callable[..., Path]) -> None:
    """A manifest that this version does not read is an error with a remedy, not a guess."""
    root = make(make_series({"1.patch": ONE})).arms[-1].root
    for text in ("[]", "{}", (root / "arm.json").read_text().replace('"schema": 1', '"schema": 2')):
        (root / "arm.json").write_text(text)
        with pytest.raises(StackError, match=r"arm\.json"):
            read_manifest(root)


def _refuse_writing(*_: object, **__: object) -> None:
    raise OSError(30, "Read-only file system")


def test_a_read_only_cache_is_read(
    make: Make, make_series: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is whole in a cache that cannot be written is used, whoever reworded a header since."""
    folder = make_series({"1.patch": ONE, "2.patch": TWO})
    first = make(folder, ["1"])
    monkeypatch.setattr(cache, "held", _refuse_writing)
    monkeypatch.setattr(cache.tempfile, "mkdtemp", _refuse_writing)
    monkeypatch.setattr(arms, "write_manifest", _refuse_writing)
    (folder / "1.patch").write_text(f"a header\n{ONE}")
    assert [(arm.root, arm.reused) for arm in make(folder, ["1"]).arms] == [(first.arms[0].root, True)]


def test_an_arm_that_a_read_only_cache_lacks(
    make: Make, make_series: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An arm, or the stock tree itself, that would have to be written names the setting that helps."""
    folder = make_series({"1.patch": ONE, "2.patch": TWO})
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(cache, "held", _refuse_writing)
    with pytest.raises(CacheError, match="cannot be written: Read-only file system") as empty:
        make(folder)
    assert "FORKPROOF_CACHE" in (empty.value.remedy or "")
    assert list((tmp_path / "cache").iterdir()) == []
    monkeypatch.undo()
    make(folder, ["1"])
    monkeypatch.setattr(cache, "held", _refuse_writing)
    with pytest.raises(CacheError, match="arm stock is not in it whole") as lacking:
        make(folder)
    assert "FORKPROOF_CACHE" in (lacking.value.remedy or "")
