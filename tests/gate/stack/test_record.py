from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ci.stack.errors import RecordError
from ci.stack.record import Difference, DifferenceKind, Flavour, compare_folder, parse_record


def test_a_record_lists_every_file_with_its_hash(wheel: Any) -> None:
    """Hashes come out in hexadecimal, sizes in bytes, and RECORD lists itself as pinned."""
    name = f"{wheel.pin.dist_info}/RECORD"
    record = parse_record(wheel.files[name], wheel.pin)
    assert record.files.keys() == wheel.files.keys()
    for path, data in wheel.files.items():
        assert (record.files[path].sha256, record.files[path].size) == (sha256(data).hexdigest(), len(data))
        record.check(path, data)


def test_what_the_lean_flavour_keeps(wheel: Any) -> None:
    """The .py files and the metadata; the full flavour keeps everything."""
    record = parse_record(wheel.files[f"{wheel.pin.dist_info}/RECORD"], wheel.pin)
    left = record.files.keys() - record.of(Flavour.LEAN).keys()
    assert left == {"vllm/_C.abi3.so", "vllm/config/tuned.json", "vllm/vllm_tool"}
    assert record.of(Flavour.FULL).keys() == record.files.keys()


def test_a_changed_file_or_record_is_refused(wheel: Any) -> None:
    """One byte more anywhere, or a file that RECORD does not list, is an error."""
    data = wheel.files[f"{wheel.pin.dist_info}/RECORD"]
    record = parse_record(data, wheel.pin)
    with pytest.raises(RecordError, match=r"vllm/m\.py: sha256"):
        record.check("vllm/m.py", wheel.files["vllm/m.py"] + b"#")
    with pytest.raises(RecordError, match=r"vllm/m\.py: sha256"):  # as long as the right one
        record.check("vllm/m.py", wheel.files["vllm/m.py"].replace(b"line 6", b"line 9"))
    with pytest.raises(RecordError, match="not in its RECORD"):
        record.check("vllm/evil.py", b"")
    with pytest.raises(RecordError, match="pinned is"):
        parse_record(data + b"\n", wheel.pin)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("../x.py,sha256=AA,1", "leaves the tree"),
        ("/x.py,sha256=AA,1", "leaves"),
        ("x.py,md5=AA,1", "kind md5"),
    ],
)
def test_rows_that_cannot_be_trusted(row: str, what: str, wheel: Any) -> None:
    """Paths out of the tree and weaker hashes are refused, even in a RECORD that is pinned."""
    data = f"{row}\n".encode()
    with pytest.raises(RecordError, match=what):
        parse_record(data, replace(wheel.pin, record_sha256=sha256(data).hexdigest()))


def test_every_file_that_differs_is_named(tmp_path: Path) -> None:
    """Changed, missing and extra files, a link in place of a file; Python's caches do not count."""
    for name in ("same", "changed", "extra", "ignored", "__pycache__/x.pyc", "target"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "linked").symlink_to(tmp_path / "target")
    digest = {name: sha256(name.encode()).hexdigest() for name in ("same", "missing", "target")}
    expected = {**digest, "changed": "0" * 64, "linked": digest["target"]}
    assert compare_folder(tmp_path, expected, ignore=["ignored"]) == [
        Difference("changed", DifferenceKind.CHANGED),
        Difference("extra", DifferenceKind.EXTRA),
        Difference("linked", DifferenceKind.CHANGED),
        Difference("missing", DifferenceKind.MISSING),
    ]
