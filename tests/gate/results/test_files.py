"""Whole files or none, and never more than the limit."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from ci.results import files
from tests.gate.samples import full_disk


def test_write_creates_folder_and_round_trips(tmp_path: Path) -> None:
    """What was written is read back, and missing folders are made."""
    path = tmp_path / "a" / "b.json"
    files.write_atomic(path, b"{}\n")
    assert files.read_limited(path, 3) == b"{}\n"


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails before the rename leaves the old content and no temporary file."""
    path = tmp_path / "a.json"
    files.write_atomic(path, b"old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(files.FileUnreadableError, match="No space left"):
        files.write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_write_replaces_a_link_instead_of_following_it(tmp_path: Path) -> None:
    """A planted symlink cannot redirect the write."""
    target = tmp_path / "elsewhere"
    target.write_bytes(b"keep")
    link = tmp_path / "link"
    link.symlink_to(target)
    files.write_atomic(link, b"new")
    assert target.read_bytes() == b"keep"
    assert not link.is_symlink()


def test_missing_file_has_its_own_error(tmp_path: Path) -> None:
    """A missing file is told apart from an unreadable one."""
    with pytest.raises(files.FileMissingError, match="no such file"):
        files.read_limited(tmp_path / "none", 10)


def test_limit_counts_bytes(tmp_path: Path) -> None:
    """One byte over the limit is refused; the limit itself is read."""
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert files.read_limited(path, 5) == b"12345"
    with pytest.raises(files.FileTooLargeError):
        files.read_limited(path, 4)


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_only_plain_files_are_read(tmp_path: Path, kind: str) -> None:
    """A folder or a pipe in place of a file is an error, not a traceback or a hang."""
    path = tmp_path / "x"
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(files.FileUnreadableError):
        files.read_limited(path, 10)


def test_all_files_are_written_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure or an interrupt in the middle takes back what was written before it, new files included."""
    one, two, new = tmp_path / "one", tmp_path / "two", tmp_path / "lane" / "new"
    one.write_bytes(b"1")
    two.write_bytes(b"2")
    files.write_all({one: b"a", two: b"b"})
    assert (one.read_bytes(), two.read_bytes()) == (b"a", b"b")
    real = os.replace

    def stop(source: str, target: Path) -> None:
        if target == two:
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        files.write_all({one: b"x", new: b"n", two: b"y"})
    assert (one.read_bytes(), two.read_bytes()) == (b"a", b"b")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [one, two]
    monkeypatch.undo()
    files.write_all({one: b"x", new: b"n"})
    assert (one.read_bytes(), new.read_bytes()) == (b"x", b"n")


def test_a_full_disk_changes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing more can be written, the first file cannot be put back either: it is not touched."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"1")
    two.write_bytes(b"2")
    full_disk(monkeypatch, after=1)
    with pytest.raises(files.FileUnreadableError, match=r"two: cannot be written: No space left") as caught:
        files.write_all({one: b"a", two: b"b"})
    assert "free space" in (caught.value.remedy or "")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == {one: b"1", two: b"2"}


def failing_replace(monkeypatch: pytest.MonkeyPatch, *targets: Path) -> None:
    """Let nothing be renamed to these paths."""
    real = os.replace

    def replace(source: str | Path, target: Path) -> None:
        if target in targets:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)


@pytest.mark.parametrize("linked", [True, False])
def test_putting_back_needs_no_space_and_keeps_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    """On a disk that has become full, files, modes and links, dangling ones too, are as they were."""
    names = ("file", "link", "dangling", "last")
    file, link, dangling, last = (tmp_path / name for name in names)
    target = tmp_path / "target"
    for path in (file, target, last):
        path.write_text("old")
    file.chmod(0o600)
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "nowhere")
    if not linked:  # as on a file system without hard links
        monkeypatch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError(errno.EPERM, "no")))
    failing_replace(monkeypatch, last)
    full_disk(monkeypatch, after=4)
    with pytest.raises(files.FileUnreadableError, match=r"last: cannot be written: Input/output error"):
        files.write_all(dict.fromkeys((file, link, dangling, last), b"new"))
    assert (file.read_text(), file.stat().st_mode & 0o777, last.read_text()) == ("old", 0o600, "old")
    assert (link.readlink(), dangling.readlink()) == (target, tmp_path / "nowhere")
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, "target"])


def test_what_cannot_be_put_back_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are put back all the same, and what it held is not lost."""
    one, two, new, last = (tmp_path / name for name in ("one", "two", "new", "last"))
    for path in (one, two, last):
        path.write_text(f"old {path.name}")
    real = os.replace

    def replace(source: str | Path, target: Path) -> None:
        if target == last:
            failing_replace(monkeypatch, one)
            monkeypatch.setattr(Path, "unlink", lambda *_, **__: os.unlink(tmp_path / "none"))
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(files.FileUnreadableError) as caught:
        files.write_all(dict.fromkeys((one, two, new, last), b"new"))
    monkeypatch.undo()
    assert caught.value.what.startswith(f"cannot be put back: {one} (what it held is in {tmp_path}/.one.")
    assert caught.value.what.endswith(f", {new} (it was not there before)")
    assert f"{last}: cannot be written: Input/output error" in (caught.value.cause or "")
    assert two.read_text() == "old two"
    assert [path.read_text() for path in tmp_path.glob(".one.*.old")] == ["old one"]


def test_a_folder_or_a_pipe_is_not_written_over(tmp_path: Path) -> None:
    """What is no plain file stays, and so does every other file."""
    one, pipe = tmp_path / "one", tmp_path / "pipe"
    one.write_text("old")
    os.mkfifo(pipe)
    for path in (tmp_path, pipe):
        with pytest.raises(files.FileUnreadableError, match="not a plain file"):
            files.write_all({one: b"new", path: b"new"})
    assert (one.read_text(), pipe.is_fifo()) == ("old", True)


@pytest.mark.parametrize("write", [files.write_report, files.append])
def test_a_device_stays_one_and_what_it_says_names_it(write: Callable[[Path, bytes], None]) -> None:
    """A device or a pipe is written into, not replaced; an error without a path in it gets the path."""
    files.write_report(Path(os.devnull), b"x")
    with pytest.raises(files.FileUnreadableError, match=r"^/dev/full: cannot be written: No space left"):
        write(Path("/dev/full"), b"x")
    assert all(Path(name).is_char_device() for name in (os.devnull, "/dev/full"))


def test_a_report_replaces_a_file_and_a_summary_grows(tmp_path: Path) -> None:
    """A report is the whole file, in a folder that need not be there; a summary may have an earlier part."""
    path = tmp_path / "new" / "report"
    files.write_report(path, b"one")
    files.write_report(path, b"two")
    files.append(path, b" three")
    assert path.read_bytes() == b"two three"
    with pytest.raises(files.FileUnreadableError, match="cannot be written: Is a directory"):
        files.write_report(tmp_path, b"x")


@pytest.mark.parametrize("ahead", [b"", b"ahead\n"])
def test_a_report_into_our_own_output_leaves_the_rest(tmp_path: Path, ahead: bytes) -> None:
    """A link such as /dev/stdout stays one, and what is printed before and after is there, in order."""
    link, out = tmp_path / "stdout", tmp_path / "out"
    link.symlink_to("/proc/self/fd/1")
    out.write_bytes(ahead)
    words = """
        import sys; from pathlib import Path; from ci.results import files
        print("one"); files.write_report(Path(sys.argv[1]), b"two\\n")
        print("three"); files.append(Path(sys.argv[1]), b"four\\n"); print("five")
    """
    with out.open("ab" if ahead else "wb") as stream:
        subprocess.run([sys.executable, "-c", dedent(words), link], stdout=stream, check=True)
    assert out.read_bytes() == ahead + b"one\ntwo\nthree\nfour\nfive\n"
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "stdout"]


def test_a_report_goes_through_a_link(tmp_path: Path) -> None:
    """The user's own link stays one, also before its target is there; a link to a folder is refused."""
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    for data in (b"longer", b"new"):
        files.write_report(link, data)
        assert (target.read_bytes(), link.is_symlink()) == (data, True)
    target.unlink()
    target.mkdir()
    with pytest.raises(files.FileUnreadableError, match="link: cannot be written: Is a directory"):
        files.write_report(link, b"x")


def test_nothing_of_the_system_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is a plain file below /proc is written into, or refused by the system."""
    monkeypatch.setattr(files, "write_atomic", lambda *_: pytest.fail("it was to be replaced"))
    with pytest.raises(files.FileUnreadableError, match="/proc/self/status: cannot be written"):
        files.write_report(Path("/proc/self/status"), b"x")
