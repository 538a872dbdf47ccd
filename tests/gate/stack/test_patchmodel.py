from __future__ import annotations

from ci.stack.patchfile import parse_patch
from ci.stack.patchmodel import series_hash

BODY = b" line 5\n-line 6\n+line SIX\n line 7\n"
PLAIN = b"--- a/vllm/m.py\n+++ b/vllm/m.py\n@@ -5,3 +5,3 @@\n" + BODY
GIT = (
    b"A reworded header: why, what, and when it can go.\n\n"
    b"diff --git a/vllm/m.py b/vllm/m.py\nindex 1234567..89abcde 100644\n"
    b"--- a/vllm/m.py\n+++ b/vllm/m.py\n@@ -105,3 +107,3 @@ def section():\n" + BODY
)


def test_a_reworded_header_and_other_offsets_are_the_same_patch() -> None:
    """The hunk hash covers what a patch does; the file hash covers every byte."""
    plain, git = parse_patch("a", PLAIN), parse_patch("b", GIT)
    assert plain.hunk_hash == git.hunk_hash
    assert plain.file_hash != git.file_hash


def test_whatever_a_patch_does_is_in_the_hash() -> None:
    """Content, context, path and the newline at the end of the file each change it."""
    variants = [
        PLAIN,
        PLAIN.replace(b"SIX", b"six"),
        PLAIN.replace(b" line 7", b" line seven"),
        PLAIN.replace(b"m.py", b"n.py"),
        PLAIN.replace(b"@@ -5,3 +5,3 @@\n", b"@@ -5,2 +5,2 @@\n").replace(b" line 7\n", b""),
        PLAIN + b"\\ No newline at end of file\n",
    ]
    assert len({parse_patch("a", data).hunk_hash for data in variants}) == len(variants)


def test_the_series_hash_depends_on_order_and_number() -> None:
    """Another order, or a prefix, is another series; another file name is not."""
    one, two = parse_patch("one", PLAIN), parse_patch("two", PLAIN.replace(b"m.py", b"n.py"))
    hashes = [series_hash(patches) for patches in ([], [one], [one, two], [two, one])]
    assert len(set(hashes)) == 4
    assert series_hash([parse_patch("renamed", PLAIN)]) == series_hash([one])
