from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci.errors import ExitCode, GateError
from ci.results import parcel
from ci.results.parcel import ParcelError, unpack

HEAD = (
    '{"kind":"run","schema":1,"run":"r1","lane":"cpu","suite":"pool","started":"2026-11-01T00:00:00Z",'
    '"subject":{"arm":"patched","series_hash":"ab"},"conditions":{}}\n'
)
RECORD = '{"kind":"record","case":"units-[16,1]","metric":"holds","value":true,"unit":"bool"}\n'
RUN = '{"run":"r1","lane":"cpu","suite":"pool","started":"2026-11-01T00:00:00Z"}'
JUNIT = '<testsuite name="s" tests="1"><testcase classname="a" name="b" time="1"/></testsuite>'
GOOD = {
    "cpu/pool/run.json": RUN,
    "cpu/pool/records.jsonl": HEAD + RECORD,
    "cpu/pool/junit.xml": JUNIT,
    "cpu/pool/console.log": "::error::x",
    "cpu/pool/verdict.json": "{}",
}


def pack(path: Path, files: Mapping[str, str | bytes]) -> Path:
    """An artifact with these files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return path


def refused(tmp_path: Path, files: Mapping[str, str | bytes]) -> str:
    """The message with which an artifact is refused; nothing of it may be left on disk."""
    into = tmp_path / "runs"
    with pytest.raises(GateError) as caught:
        unpack(pack(tmp_path / "a.zip", files), into)
    assert caught.value.exit_code is ExitCode.NO_VERDICT
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "a.zip"] == []
    return caught.value.what


def test_what_a_job_of_ours_uploads_is_taken(tmp_path: Path) -> None:
    """The three files of a run are written, logs and the old verdict are not."""
    into = tmp_path / "runs"
    assert unpack(pack(tmp_path / "a.zip", GOOD), into, ["cpu"]) == [("cpu", "pool")]
    written = {
        path.relative_to(into).as_posix(): path.read_text() for path in into.rglob("*") if path.is_file()
    }
    assert written == {name: GOOD[name] for name in GOOD if name.endswith(("run.json", "jsonl", "xml"))}


@pytest.mark.parametrize(
    "name",
    [
        "../evil.json",
        "cpu/pool/../../../evil.json",
        "/etc/evil.json",
        "cpu\\pool\\run.json",
        "cpu/./run.json",
        "cpu//run.json",
        "cpu/pool/../run.json.log",
    ],
)
def test_a_path_that_leads_out_is_refused(name: str, tmp_path: Path) -> None:
    """Whatever way it is written, and whether or not its kind would be left aside."""
    assert "leads out of its folder" in refused(tmp_path, {**GOOD, name: "{}"})


@pytest.mark.parametrize(
    "name",
    [
        "cpu/pool/comment.md",
        "cpu/pool/pr.txt",
        "pr_number",
        "cpu/pool/deep/run.json",
        "CPU/pool/run.json",
        ".x/y/run.json",
    ],
)
def test_a_file_that_no_run_has_is_refused(name: str, tmp_path: Path) -> None:
    """A ready comment or the number of a pull request is nothing that was asked for."""
    assert "refused" in refused(tmp_path, {**GOOD, name: "17"})


def test_a_lane_that_was_not_planned_is_refused(tmp_path: Path) -> None:
    """The hosted job of a fork cannot bring results of a GPU."""
    with pytest.raises(ParcelError, match="no lane and suite that was asked for"):
        unpack(pack(tmp_path / "a.zip", GOOD), tmp_path / "runs", ["rtx3090"])


def test_a_link_is_refused(tmp_path: Path) -> None:
    """A symbolic link in an archive points where it likes."""
    info = zipfile.ZipInfo("cpu/pool/run.json")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(ParcelError, match="link or a device"):
        unpack(tmp_path / "a.zip", tmp_path / "runs")


def test_a_name_given_twice_is_refused(tmp_path: Path) -> None:
    """Readers differ in which of the two they take; case does not make two names."""
    assert "twice" in refused(tmp_path, {**GOOD, "cpu/pool/RUN.json": RUN})


def test_a_bomb_is_refused_unread(tmp_path: Path) -> None:
    """It packs to a thousandth of its size; what the archive states is enough to know it."""
    archive = zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED)
    with archive, archive.open("cpu/pool/records.jsonl", "w") as stream:
        for _ in range(80):
            stream.write(b" " * (1 << 20))
    with pytest.raises(ParcelError, match=r"80 MiB, at most 64"):
        unpack(tmp_path / "a.zip", tmp_path / "runs")


def test_a_size_that_is_a_lie_does_not_help(tmp_path: Path) -> None:
    """An archive that states 10 bytes for a bomb gives an error, never the bomb."""
    path = pack(tmp_path / "a.zip", {"cpu/pool/run.json": " " * (4 << 20)})
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<L", 4 << 20), struct.pack("<L", 10)))
    with pytest.raises(ParcelError):
        unpack(path, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><testsuites/>',
        '<?xml version="1.0"?>\n<!DOCTYPE lolz>\n<testsuites/>',
    ],
)
def test_a_doctype_is_refused(doctype: str, tmp_path: Path) -> None:
    """Entities of a stranger are never expanded."""
    assert "DOCTYPE" in refused(tmp_path, {**GOOD, "cpu/pool/junit.xml": doctype})


@pytest.mark.parametrize(
    "name",
    [
        "</details>",
        "<!-- forkproof:verdict -->",
        "a|b",
        "@someone",
        "`x`",
        "#1",
        "[x](https://y)!",
        "::error::",
    ],
)
def test_a_name_that_markdown_could_read_is_refused(name: str, tmp_path: Path) -> None:
    """No case of ours is called so; the report would escape it, and does not even get it."""
    record = RECORD.replace("units-[16,1]", name)
    assert "no name of a case or metric" in refused(
        tmp_path, {**GOOD, "cpu/pool/records.jsonl": HEAD + record}
    )


def test_records_of_another_lane_are_refused(tmp_path: Path) -> None:
    """The head says where they were measured."""
    moved = {name.replace("cpu/", "rtx3090/"): data for name, data in GOOD.items()}
    assert "in another folder" in refused(tmp_path, moved)


def test_the_same_run_twice_is_refused(tmp_path: Path) -> None:
    """A second artifact cannot replace the first one's results."""
    unpack(pack(tmp_path / "a.zip", GOOD), tmp_path / "runs")
    with pytest.raises(ParcelError, match="has come already"):
        unpack(pack(tmp_path / "b.zip", GOOD), tmp_path / "runs")


@pytest.mark.parametrize("data", [b"", b"PK", b"no zip at all"])
def test_what_is_no_archive_is_refused(data: bytes, tmp_path: Path) -> None:
    """A cut or empty upload is an error, never an empty run."""
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    with pytest.raises(ParcelError, match="no readable archive"):
        unpack(path, tmp_path / "runs")


def test_an_archive_without_a_run_is_refused(tmp_path: Path) -> None:
    """Logs alone are no result."""
    assert "no run in it" in refused(tmp_path, {"cpu/pool/console.log": "x"})


def test_an_archive_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is opened."""
    monkeypatch.setattr(parcel, "MAX_ARCHIVE_BYTES", 10)
    assert "MiB" in refused(tmp_path, GOOD)


def test_a_message_is_one_line_of_plain_text(tmp_path: Path) -> None:
    """A name cannot write a workflow command into the log of the job that refuses it."""
    assert "\n" not in refused(tmp_path, {**GOOD, "a\n::error::x/../y": ""})
