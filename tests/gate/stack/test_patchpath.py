from __future__ import annotations

import pytest

from ci.stack.errors import EncodingError, PathOutsideError
from ci.stack.patchpath import clean_path, git_header_path, header_path


@pytest.mark.parametrize(
    ("raw", "strip", "path"),
    [
        (b"a/vllm/m.py", 1, "vllm/m.py"),
        (b"vllm/m.py", 0, "vllm/m.py"),
        (b"x/y/vllm/m.py", 2, "vllm/m.py"),
        (b"a/vllm/m.py\t2026-01-01 00:00:00", 1, "vllm/m.py"),
        (b"a/with space.py\t", 1, "with space.py"),
        (b'"a/gr\\303\\274n\\tx.py"', 1, None),
        (b'"a/gr\\303\\274n.py"', 1, "gr\u00fcn.py"),
        (b'"a/quo\\"te.py"', 1, 'quo"te.py'),
    ],
)
def test_names_of_header_lines(raw: bytes, strip: int, path: str | None) -> None:
    """Time stamps go, quoting is undone, leading folders are dropped; a tab in a name is refused."""
    if path is None:
        with pytest.raises(PathOutsideError, match="control character"):
            header_path(raw, strip, "p", 1)
    else:
        assert header_path(raw, strip, "p", 1) == path


@pytest.mark.parametrize(
    "raw", [b"/dev/null", b"/dev/null\t2026-01-01", b"a/x.py\t1970-01-01 01:00:00.000 +0100"]
)
def test_a_side_without_a_file(raw: bytes) -> None:
    """/dev/null, and the epoch that plain diff writes, both mean that the file does not exist there."""
    assert header_path(raw, 1, "p", 1) is None


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"a/../outside.txt", "leads out of the tree"),
        (b"../outside.txt", "leads out of the tree"),
        (b"a/vllm/../../x", "leads out of the tree"),
        (b"/etc/passwd", "is absolute"),
        (b"C:/x.py", "is absolute"),
        (b"a/./x.py", "has a '.'"),
        (b"a/x\\y.py", "backslash"),
        (b'"a/\\056\\056/x"', "leads out of the tree"),
        (b"m.py", "too few folders for -p1"),
        (b"a/", "empty part"),
        (b"a//m.py", "empty part"),
    ],
)
def test_paths_that_are_refused(raw: bytes, what: str) -> None:
    """A path is inside the tree or an error that says why, quoted or not."""
    with pytest.raises(PathOutsideError, match=what):
        clean_path(raw, 1, "p.patch", 7)


def test_a_path_that_is_no_utf8() -> None:
    """A path in another encoding is refused, not guessed."""
    with pytest.raises(EncodingError, match=r"^p.patch:3"):
        clean_path(b"a/gr\xfcn.py", 1, "p.patch", 3)


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (b"diff --git a/x.py b/x.py\n", "x.py"),
        (b"diff --git a/x b/y z b/x b/y z\n", "x b/y z"),
        (b'diff --git "a/gr\\303\\274n.py" "b/gr\\303\\274n.py"\n', "gr\u00fcn.py"),
        (b"diff --git a/x.py b/y.py\n", None),
    ],
)
def test_the_name_in_a_git_header(line: bytes, path: str | None) -> None:
    """The one name of a git header, if both sides agree on it."""
    assert git_header_path(line, 1, "p", 1) == path
