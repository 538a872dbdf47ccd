from __future__ import annotations

import pytest

from ci.stack.errors import CorruptPatchError, LostSpaceError
from ci.stack.hunks import read_hunk
from ci.stack.patchmodel import Hunk

MARK = b"\\ No newline at end of file\n"


def read(text: bytes) -> tuple[Hunk, int]:
    """Read ``text`` as the second hunk of its file."""
    lines = [line + b"\n" for line in text.split(b"\n")[:-1]]
    if not text.endswith(b"\n"):
        lines.append(text.rpartition(b"\n")[2])
    return read_hunk(lines, 0, 2, "p.patch", "vllm/m.py")


def test_counts_of_one_may_be_left_out() -> None:
    """``-4 +4`` means one line on each side."""
    hunk, end = read(b"@@ -4 +4 @@ def f():\n-a\n+b\nnext\n")
    assert (hunk.old_start, hunk.old, hunk.new, end) == (4, (b"a\n",), (b"b\n",), 3)


def test_the_newline_mark_belongs_to_the_line_before_it() -> None:
    """Each side can lack its newline on its own."""
    hunk, end = read(b"@@ -1,2 +1,2 @@\n a\n-b\n" + MARK + b"+c\n" + MARK)
    assert (hunk.old, hunk.new, end) == ((b"a\n", b"b"), (b"a\n", b"c"), 6)
    hunk, _ = read(b"@@ -1,2 +1,2 @@\n a\n-b\n" + MARK + b"+b\n")
    assert (hunk.old[-1], hunk.new[-1]) == (b"b", b"b\n")


def test_a_mark_at_the_very_end_of_the_patch_file() -> None:
    """The mark itself may lack its newline."""
    hunk, _ = read(b"@@ -0,0 +1 @@\n+/tmp\n\\ No newline at end of file")
    assert hunk.new == (b"/tmp",)


def test_carriage_returns_are_content() -> None:
    """A diff of a CRLF file keeps them."""
    hunk, _ = read(b"@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n")
    assert hunk.old == (b"a\r\n", b"b\r\n")


def test_edges_of_a_hunk() -> None:
    """No context before a change on line 1, or after the last change, is an edge of the file."""
    assert read(b"@@ -1,2 +1,2 @@\n-a\n+b\n c\n")[0].at_start
    assert not read(b"@@ -1,2 +1,2 @@\n c\n-a\n+b\n")[0].at_start
    assert read(b"@@ -1,2 +1,2 @@\n c\n-a\n+b\n")[0].at_end
    assert not read(b"@@ -9,2 +9,2 @@\n-a\n+b\n c\n")[0].at_start


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_an_empty_context_line_without_its_space(ending: bytes) -> None:
    """It is refused with its line and the command that mends it, whatever the line end."""
    with pytest.raises(LostSpaceError) as caught:
        read(b"@@ -1,4 +1,4 @@\n a\n" + ending + b"-b\n+B\n c\n")
    error = caught.value
    assert (error.line, error.hunk, error.file) == (3, 2, "vllm/m.py")
    assert "sed -i '3s/^$/ /' p.patch" in str(error)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"@@ -1,3 +1,3 @@\n a\n-b\n+c\n", "promises 1 old and 1 new lines more, but the patch ends here"),
        (b"@@ -1,3 +1,3 @@\n a\n-b\n+c\ndiff --git a/x b/x\n", "here is 'diff --git a/x b/x'"),
        (b"@@ -1,1 +1,3 @@\n a\n-b\n+c\n", "more lines of one side"),
        (b"@@ -1,2 +1,2 @@\n a\n-b\n+c\n+d\n", "is complete by its @@ line, but here is '+d'"),
        (b"@@ -1,2 +1,2 @@\n a\n-b\n+c\n d\n", "is complete by its @@ line, but here is ' d'"),
        (b"@@ -1,2 +1,2 @@\n a\n-b\n+c\n\n+d\n", "is complete by its @@ line, but here is '+d'"),
        (b"@@ -1,2 +1,2 @@\n a\n-b\n+c", "ends in the middle of this line"),
        (b"@@ -1,2 +1,2 @@\n a\n" + MARK + b"-b\n+c\n", "stands before the last line"),
        (b"@@ -1,2 +1,2 @@\n a\nxb\n+c\n", "here is 'xb'"),
    ],
)
def test_counts_that_do_not_add_up(text: bytes, what: str) -> None:
    """A hunk edited by hand is refused, so that no line of it is dropped in silence."""
    with pytest.raises(CorruptPatchError) as caught:
        read(text)
    assert what in str(caught.value)
    assert str(caught.value).startswith("p.patch:")
    assert "hunk 2" in str(caught.value)


@pytest.mark.parametrize(
    "after", [b"-- \n2.43.0\n", b"--\n", b"\n\nwords\n", b"--- a/x\n+++ b/x\n", b"@@ -9 +9 @@\n"]
)
def test_what_may_follow_a_hunk(after: bytes) -> None:
    """A mail signature, text, the next file and the next hunk are no leftovers."""
    assert read(b"@@ -1,2 +1,2 @@\n a\n-b\n+c\n" + after)[1] == 4
