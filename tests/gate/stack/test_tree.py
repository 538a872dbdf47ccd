from __future__ import annotations

from pathlib import Path

from ci.stack.tree import DiskTree, MemoryTree, Overlay, walk_files


def test_an_overlay_changes_adds_and_removes_without_touching_its_base() -> None:
    """Reads and listings see the changes; the tree below stays as it is."""
    base = MemoryTree({"a": b"1", "b": b"2"})
    over = Overlay(base)
    over.write("a", None)
    over.write("c", b"3")
    assert (over.read("a"), over.read("b"), over.read("c")) == (None, b"2", b"3")
    assert list(over.paths()) == ["b", "c"]
    assert base.files == {"a": b"1", "b": b"2"}


def test_a_disk_tree_knows_what_it_leaves_out(tmp_path: Path) -> None:
    """A listed file that is not there is left out; an unlisted one is simply absent."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/m.py").write_bytes(b"x")
    below = DiskTree(tmp_path, frozenset({"vllm/m.py", "vllm/k.so"}))
    assert below.read("vllm/m.py") == b"x"
    assert below.read("vllm") is None
    assert (below.left_out("vllm/k.so"), below.left_out("vllm/m.py"), below.left_out("vllm/z")) == (
        True,
        False,
        False,
    )


def test_python_caches_are_no_files_of_a_tree(tmp_path: Path) -> None:
    """Compiled files appear when an arm is used, and do not count."""
    for name in ("b/y.py", "a.py", "b/__pycache__/y.cpython-311.pyc", "b/old.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert list(walk_files(tmp_path)) == ["a.py", "b/y.py"]
