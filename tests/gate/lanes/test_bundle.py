"""The bundle: what is in it, that it is reproducible, and that its script runs what it says."""

from __future__ import annotations

import io
import lzma
import os
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from ci.lanes import bundle
from ci.lanes.bundle import BundleError, Contents, committed_tree, pack, uncommitted, without, write_parts

LOCK = """\
# a comment
numpy==2.0 ; python_version < '3.12' \\
    --hash=sha256:aa
torch-extra==1 \\
    --hash=sha256:bb
torch==2.13.0 \\
    --hash=sha256:cc
    # via something
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A clone with one committed file, one changed file and one that git does not know."""
    root = tmp_path / "repo"
    root.mkdir()
    for command in (
        ["init", "-q"],
        ["config", "user.name", "a"],
        ["config", "user.email", "a@b.invalid"],
    ):
        subprocess.run(["git", "-C", str(root), *command], check=True)
    (root / "a.py").write_text("committed\n")
    subprocess.run(["git", "-C", str(root), "add", "a.py"], check=True)
    subprocess.run(["git", "-C", str(root), "commit", "-qm", "a"], check=True)
    (root / "a.py").write_text("changed since\n")
    (root / "b.py").write_text("never added\n")
    return root


@pytest.fixture
def contents(repository: Path, tmp_path: Path) -> Contents:
    """A small bundle: two arms that share a file."""
    cache = tmp_path / "cache"
    one, two = cache / "arms" / "one", cache / "arms" / "two"
    one.mkdir(parents=True)
    two.mkdir()
    (one / "shared.py").write_text("same")
    os.link(one / "shared.py", two / "shared.py")
    wheel = tmp_path / "x-1-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    return Contents(
        checkout=committed_tree(repository),
        cache=cache,
        cached=[one, two],
        wheels=[wheel],
        extensions={"vllm/_C.abi3.so": b"code"},
        suites=["oracle"],
        flavour="lean",
        arm="two",
    )


def unpacked(data: bytes) -> dict[str, tarfile.TarInfo]:
    """Members by name below the bundle's folder."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(data))) as archive:
        return {info.name.removeprefix("forkproof-bundle/"): info for info in archive}


def test_the_committed_tree_is_packed_and_the_rest_is_named(repository: Path, contents: Contents) -> None:
    """A host runs HEAD; what differs from it is not packed in silence."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(pack(contents)))) as archive:
        held = archive.extractfile("forkproof-bundle/checkout/a.py")
        assert held is not None
        assert held.read() == b"committed\n"
    assert "checkout/b.py" not in unpacked(pack(contents))
    assert uncommitted(repository) == [" M a.py", "?? b.py"]


def test_files_that_arms_share_are_stored_once(contents: Contents) -> None:
    """Hard links stay links, so a fourth arm costs what it changes."""
    members = unpacked(pack(contents))
    assert members["cache/arms/one/shared.py"].isreg()
    assert members["cache/arms/two/shared.py"].islnk()


def test_the_same_inputs_give_the_same_bytes(contents: Contents) -> None:
    """Neither owner nor time of a file is in the archive."""
    first = pack(contents)
    for path in contents.cache.rglob("*.py"):
        os.utime(path, (1, 1))
    assert pack(contents) == first
    assert {(info.uid, info.uname, info.mtime) for info in unpacked(first).values()} == {(0, "", 0)}


def test_the_script_runs_the_suites_with_the_bundle_s_own_wheels_and_arms(
    contents: Contents, tmp_path: Path
) -> None:
    """Site, cache and import path point into the bundle, wherever it was unpacked."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(pack(contents)))) as archive:
        archive.extractall(tmp_path, filter="data")
    here = tmp_path / "forkproof-bundle"
    (here / "site").mkdir()
    assert (here / "extensions" / "vllm" / "_C.abi3.so").read_bytes() == b"code"
    fake = tmp_path / "python"
    shown = "$FORKPROOF_SITE|$PYTHONPATH|$FORKPROOF_CACHE|$FORKPROOF_FLAVOUR|$PWD|$*"
    fake.write_text(f'#!/bin/sh\necho "{shown}"\n')
    fake.chmod(0o755)
    ran = {
        "": "-m ci run --arm two oracle",
        "membudget --lane h200": "-m ci run --arm two membudget --lane h200",
        "ci throughput any-gpu-verify --in-process": "-m ci throughput any-gpu-verify --in-process",
        "doctor --lane h200 --json": "-m ci doctor --lane h200 --json",
        "sweep": "-m ci sweep",
    }
    for given, expected in ran.items():
        done = subprocess.run(
            [str(here / "run.sh"), *given.split()],
            env=os.environ | {"PYTHON": str(fake)},
            capture_output=True,
            text=True,
            check=True,
        )
        site, path, cache, flavour, folder, words = done.stdout.strip().split("|")
        assert (site, path, cache) == (str(here / "site"), str(here / "site"), str(here / "cache"))
        assert (flavour, folder, words) == ("lean", str(here / "checkout"), expected)


def test_an_installed_tree_is_judged_instead_of_the_bundle_s_arm(contents: Contents, tmp_path: Path) -> None:
    """With VLLM_ROOT the script names no arm: `run` refuses the two together."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(pack(contents)))) as archive:
        archive.extractall(tmp_path, filter="data")
    here = tmp_path / "forkproof-bundle"
    (here / "site").mkdir()
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho "$*"\n')
    fake.chmod(0o755)
    for root, expected in (("", "-m ci run --arm two oracle\n"), ("/tree", "-m ci run oracle\n")):
        env = os.environ | {"PYTHON": str(fake), "VLLM_ROOT": root}
        done = subprocess.run(
            [str(here / "run.sh"), "oracle"], env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout == expected


def test_another_series_comes_along(contents: Contents, tmp_path: Path) -> None:
    """Its files are packed, and every command on the host takes it."""
    series = tmp_path / "theirs"
    series.mkdir()
    (series / "0001-a.patch").write_text("a patch")
    data = pack(replace(contents, series=series))
    assert "series/0001-a.patch" in unpacked(data)
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(data))) as archive:
        script = archive.extractfile("forkproof-bundle/run.sh")
        assert script is not None
        assert 'export FORKPROOF_SERIES="$here/series"\n' in script.read().decode()


def test_a_lock_without_what_the_host_has() -> None:
    """An entry goes with its hashes; a name that only begins alike stays."""
    assert without(LOCK, {"torch", "numpy"}) == "# a comment\ntorch-extra==1 \\\n    --hash=sha256:bb\n"


def test_parts_join_to_the_whole(tmp_path: Path) -> None:
    """`cat` over the parts gives the archive; a small one is not split."""
    parts = write_parts(b"0123456789", tmp_path / "b.xz", 4)
    assert [part.name for part in parts] == ["b.xz.part01", "b.xz.part02", "b.xz.part03"]
    assert b"".join(part.read_bytes() for part in parts) == b"0123456789"
    assert write_parts(b"01", tmp_path / "c.xz", 4) == [tmp_path / "c.xz"]


def test_more_than_99_parts_join_in_order(tmp_path: Path) -> None:
    """A shell sorts part100 before part11, so all numbers have the digits of the last."""
    data = bytes(range(120))
    parts = write_parts(data, tmp_path / "b.xz", 1)
    assert parts == sorted(parts)
    assert b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir())) == data


def test_no_part_of_an_earlier_archive_is_left(tmp_path: Path) -> None:
    """Fewer parts, or one file instead of parts: `cat` finds those of the last archive only; others stay."""
    target, other = tmp_path / "b[1].xz", tmp_path / "b[1].xz.partial"
    other.touch()
    write_parts(b"0123456789", target, 2)
    shorter = write_parts(b"0123456789", target, 4)
    assert sorted(tmp_path.iterdir()) == sorted([*shorter, other])
    assert write_parts(b"01", target, None) == [target]
    assert sorted(tmp_path.iterdir()) == sorted([target, other])
    write_parts(b"0123", target, 2)
    assert not target.exists()


def test_outside_a_clone_there_is_nothing_to_pack(tmp_path: Path) -> None:
    """The error says what to do."""
    with pytest.raises(BundleError, match="no commit to pack"):
        committed_tree(tmp_path)


def test_a_wheel_that_cannot_be_had_names_the_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """pip's own words, and the two options that help."""
    lock = tmp_path / "lock.txt"
    lock.write_text(LOCK)
    failed = subprocess.CompletedProcess([], 1, "", "no matching distribution")
    monkeypatch.setattr(bundle.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(BundleError, match=r"Python 3\.99: no matching") as error:
        bundle.download_wheels(lock, tmp_path, "3.99", ["torch"])
    assert "--host-has" in str(error.value)
