from __future__ import annotations

import pytest

from ci.stack.errors import (
    BinaryPatchError,
    CorruptPatchError,
    EmptyPatchError,
    EncodingError,
    LineEndingsError,
    ModeChangeError,
    PatchError,
    PathOutsideError,
    SymlinkError,
)
from ci.stack.patchfile import parse_patch
from ci.stack.patchmodel import ChangeKind

HUNK = b"@@ -5,3 +5,3 @@\n line 5\n-line 6\n+line SIX\n line 7\n"
HEAD = b"--- a/vllm/m.py\n+++ b/vllm/m.py\n"
GIT = b"diff --git a/vllm/m.py b/vllm/m.py\n"
MOVED = b"diff --git a/vllm/x.py b/vllm/y.py\nsimilarity index 90%\n"
LINK = GIT + b"new file mode 120000\n--- /dev/null\n+++ b/vllm/m.py\n@@ -0,0 +1 @@\n+/tmp\n"


def kinds(data: bytes) -> list[tuple[ChangeKind, str | None, str | None]]:
    """Kind and both paths of each change."""
    return [(change.kind, change.old_path, change.new_path) for change in parse_patch("p", data).changes]


def test_a_mail_with_two_files() -> None:
    """git format-patch text around the diffs is left alone, its signature included."""
    data = (
        b"From 1234 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n- a list\n---\n m.py | 2 +-\n\n"
        + GIT
        + b"index 1..2 100644\n"
        + HEAD
        + HUNK
        + HUNK.replace(b"-5,3 +5,3", b"-9,3 +9,3")
        + b"diff --git a/vllm/n.py b/vllm/n.py\n--- a/vllm/n.py\n+++ b/vllm/n.py\n"
        + HUNK
        + b"-- \n2.43.0\n\n"
    )
    patch = parse_patch("p", data)
    assert [change.path for change in patch.changes] == ["vllm/m.py", "vllm/n.py"]
    first = patch.changes[0].hunks
    assert [(hunk.number, hunk.old_start) for hunk in first] == [(1, 5), (2, 9)]
    assert first[0].old == (b"line 5\n", b"line 6\n", b"line 7\n")
    assert first[0].new == (b"line 5\n", b"line SIX\n", b"line 7\n")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"--- /dev/null\n+++ b/vllm/x.py\n@@ -0,0 +1 @@\n+one\n", (ChangeKind.CREATE, None, "vllm/x.py")),
        (b"--- a/vllm/x.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", (ChangeKind.DELETE, "vllm/x.py", None)),
        (
            b"diff --git a/vllm/x.py b/vllm/x.py\nnew file mode 100644\nindex 0..e69de29\n",
            (ChangeKind.CREATE, None, "vllm/x.py"),
        ),
        (
            b"diff --git a/vllm/x.py b/vllm/x.py\ndeleted file mode 100644\nindex e69de29..0\n",
            (ChangeKind.DELETE, "vllm/x.py", None),
        ),
        (
            MOVED + b"rename from vllm/x.py\nrename to vllm/y.py\n",
            (ChangeKind.RENAME, "vllm/x.py", "vllm/y.py"),
        ),
        (
            MOVED + b"copy from vllm/x.py\ncopy to vllm/y.py\n--- a/vllm/x.py\n+++ b/vllm/y.py\n" + HUNK,
            (ChangeKind.COPY, "vllm/x.py", "vllm/y.py"),
        ),
        (b"\xef\xbb\xbf" + HEAD + HUNK, (ChangeKind.MODIFY, "vllm/m.py", "vllm/m.py")),
    ],
)
def test_kinds_of_change(data: bytes, kind: tuple[ChangeKind, str | None, str | None]) -> None:
    """Created, deleted (empty files too), renamed, copied and changed files are told apart."""
    assert kinds(data) == [kind]


@pytest.mark.parametrize(
    ("data", "error", "what"),
    [
        (b"", EmptyPatchError, "the file is empty"),
        (b"\n \n", EmptyPatchError, "the file is empty"),
        (b"just words\n", EmptyPatchError, "no unified diff"),
        (b"*** a/m.py\n--- b/m.py\n***************\n*** 1 ****\n", EmptyPatchError, "context diff"),
        (b"\x1b[1mdiff --git a/x b/x\x1b[m\n", EmptyPatchError, "terminal colours"),
        (HEAD, EmptyPatchError, "vllm/m.py: no hunk follows"),
        (GIT + b"index 1..2 100644\n", EmptyPatchError, "vllm/m.py: named, but nothing is changed"),
        (HEAD + b"@@ -5,2 +5,2 @@\n line 5\n line 6\n", EmptyPatchError, "hunk 1: only context"),
        (
            HEAD + b"@@ -5,2 +5,2 @@\n line 5\n-line 6\n+line 6\n",
            EmptyPatchError,
            "hunk 1: both sides are",
        ),
        (HEAD + HUNK + b"\0", CorruptPatchError, "p:8: a NUL byte"),
        ((HEAD + HUNK).decode().encode("utf-16"), EncodingError, "UTF-16"),
        ((HEAD + HUNK).replace(b"\n", b"\r\n"), LineEndingsError, "line endings"),
        (HEAD + HUNK.replace(b"@@\n", b"@@\r\n"), LineEndingsError, "line endings"),
        (HUNK, CorruptPatchError, "p:1: a hunk without the --- and"),
        (b"--- a/m.py.orig\n+++ b/m.py\n" + HUNK, CorruptPatchError, "two different files"),
        (b"diff --cc m.py\n", CorruptPatchError, "combined diff"),
        (b"--- /dev/null\n+++ /dev/null\n" + HUNK, CorruptPatchError, "no file on the new side"),
        (GIT + b"rename from vllm/m.py\n", CorruptPatchError, "without 'rename to'"),
        (b"--- a/../m.py\n+++ b/../m.py\n" + HUNK, PathOutsideError, "leads out of the tree"),
        (GIT.replace(b"/vllm", b"/..") + b"new file mode 100644\n", PathOutsideError, "leads out"),
        (
            GIT + b"Binary files a/vllm/m.py and b/vllm/m.py differ\n",
            BinaryPatchError,
            "p:2, vllm/m.py: a binary",
        ),
        (GIT + b"GIT binary patch\nliteral 3\nKcmZ\n", BinaryPatchError, "a binary file"),
        (b"Files a/x.bin and b/x.bin differ\n", BinaryPatchError, "a binary file"),
        (b"Binary files a/x and b/x differ\n" + HEAD + HUNK, BinaryPatchError, "p:1: a binary file"),
        (LINK, SymlinkError, "120000"),
        (GIT + b"index 1..2 120000\n" + HEAD + HUNK, SymlinkError, "symbolic link"),
        (GIT + b"deleted file mode 120000\n", SymlinkError, "symbolic link"),
        (GIT + b"new file mode 160000\n", SymlinkError, "submodule"),
        (GIT + b"old mode 100644\nnew mode 100755\n", ModeChangeError, "old mode 100644, new mode 100755"),
        (GIT + b"old mode 100644\nnew mode 100755\n" + HEAD + HUNK, ModeChangeError, "vllm/m.py"),
        (GIT + b"new file mode 100755\n", ModeChangeError, "new file mode 100755"),
    ],
)
def test_what_is_refused(data: bytes, error: type[PatchError], what: str) -> None:
    """Every defect has an error of its own class that names it and offers a remedy."""
    with pytest.raises(error) as caught:
        parse_patch("p", data)
    assert what in str(caught.value)
    assert caught.value.remedy
    assert type(caught.value) is error


def test_the_error_shows_its_cause() -> None:
    """Cause and remedy are part of what is printed."""
    with pytest.raises(EmptyPatchError) as caught:
        parse_patch("p", b"")
    assert str(caught.value).splitlines() == [
        "p: no unified diff in it",
        "  cause:  the file is empty",
        "  remedy: write it with: git diff --no-color > FILE",
    ]
