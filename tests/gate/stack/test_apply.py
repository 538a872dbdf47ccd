"""Each kind of defect refused by name, each good patch applied as git would."""

from __future__ import annotations

import difflib
import os
import random
import subprocess
from pathlib import Path

import pytest

from ci.stack.apply import apply_patch, apply_series, path_base
from ci.stack.errors import (
    AlreadyAppliedError,
    AmbiguousHunkError,
    ContextMismatchError,
    CorruptPatchError,
    LineEndingsError,
    MixedBaseError,
    NewFileExistsError,
    NoContextError,
    NoNewlineError,
    NoSuchFileError,
    NotInFlavourError,
    PatchError,
    UnchangedFileError,
    UnplacedPatchError,
)
from ci.stack.patchfile import parse_patch
from ci.stack.place import Placement
from ci.stack.tree import DiskTree, MemoryTree

LINES = [b"line %d\n" % number for number in range(1, 13)]
TEXT = b"".join(LINES)
HUNK = b"@@ -5,3 +5,3 @@\n line 5\n-line 6\n+line SIX\n line 7\n"


def head(path: str = "vllm/m.py") -> bytes:
    """The two header lines for one file."""
    return f"--- a/{path}\n+++ b/{path}\n".encode()


def made(path: str) -> bytes:
    """The two header lines for a file that is created."""
    return f"--- /dev/null\n+++ b/{path}\n".encode()


def tree(**files: bytes) -> MemoryTree:
    """A tree of vllm/NAME.py files, m.py by default."""
    return MemoryTree({f"vllm/{name}.py": data for name, data in (files or {"m": TEXT}).items()})


def apply(data: bytes, below: MemoryTree) -> dict[str, bytes | None]:
    """The files that a patch changes."""
    return apply_patch(parse_patch("p.patch", data), below).files


def test_a_hunk_on_its_stated_line() -> None:
    """The context fits, the line is replaced, the placement has no offset, and the tree is not touched."""
    below = tree()
    applied = apply_patch(parse_patch("p", head() + HUNK), below)
    assert applied.files == {"vllm/m.py": TEXT.replace(b"line 6\n", b"line SIX\n")}
    assert applied.placements == (Placement("p", "vllm/m.py", 1, 5, 5),)
    assert applied.placements[0].offset == 0
    assert below.files == {"vllm/m.py": TEXT}


def test_a_moved_hunk_applies_and_reports_its_offset() -> None:
    """Forty new lines above: it applies where the context stands exactly, and says by how much."""
    applied = apply_patch(parse_patch("p", head() + HUNK), tree(m=b"# new\n" * 40 + TEXT))
    assert [(place.stated, place.found, place.offset) for place in applied.placements] == [(5, 45, 40)]
    assert (applied.files["vllm/m.py"] or b"").endswith(TEXT.replace(b"line 6\n", b"line SIX\n"))


def test_each_hunk_of_a_moved_file_has_its_own_offset() -> None:
    """Two hunks, of which only the second moved."""
    hunk = b"@@ -%d,3 +%d,3 @@\n line %d\n-line %d\n+x\n line %d\n"
    two = head() + b"".join(hunk % (n, n, n, n + 1, n + 2) for n in (2, 9))
    moved = b"".join([*LINES[:6], b"new\n", b"new\n", *LINES[6:]])
    applied = apply_patch(parse_patch("p", two), tree(m=moved))
    assert [place.offset for place in applied.placements] == [0, 2]


def test_context_that_differs_is_refused_without_fuzz() -> None:
    """An outer context line that differs is an error, with patch, file, hunk, both lines and a remedy."""
    patch = head() + b"@@ -3,7 +3,7 @@\n line 3\n line 4\n line 5\n-line 6\n+SIX\n line 7\n line 8\n line 9\n"
    with pytest.raises(ContextMismatchError) as caught:
        apply(patch, tree(m=TEXT.replace(b"line 3\n", b"line three\n")))
    assert str(caught.value).splitlines() == [
        "p.patch:3, vllm/m.py, hunk 1: context does not match: 6 of 7 lines fit at line 3",
        "    expected (line 3): 'line 3\\n'",
        "    found:             'line three\\n'",
        "  cause:  this vLLM version has other lines there than the patch expects",
        "  remedy: re-diff the patch against the pinned wheel",
    ]
    assert (caught.value.patch, caught.value.file, caught.value.hunk) == ("p.patch", "vllm/m.py", 1)


def test_white_space_is_named_as_the_cause() -> None:
    """Tabs against spaces are hard to see in a message, so it says so."""
    with pytest.raises(ContextMismatchError, match="only white space differs"):
        apply(head() + HUNK, tree(m=TEXT.replace(b"line 7", b"line  7")))


def test_two_equally_near_places_are_an_error() -> None:
    """A tie names both lines; the patch is not applied to either."""
    block = b"line 5\nline 6\nline 7\n"
    patch = head() + HUNK.replace(b"-5,3 +5,3", b"-7,3 +7,3")
    with pytest.raises(AmbiguousHunkError, match="stated at line 7, fits at 4 and at 10"):
        apply(patch, tree(m=b"a\na\na\n" + block + b"b\nb\nb\n" + block))


def test_a_stated_line_is_not_trusted_when_the_hunk_before_it_moved() -> None:
    """After an offset, a repeated block at the stated line is as likely the wrong one."""
    block = b"x\ny\nz\n"
    moved = b"n\n" * 4 + TEXT + block + b"".join(b"f %d\n" % n for n in range(1)) + block
    second = b"@@ -16,3 +16,3 @@\n x\n-y\n+Y\n z\n"
    at = moved.split(b"\n").index(b"x")
    patch = head() + HUNK + second.replace(b"16", b"%d" % (at + 1))
    with pytest.raises(AmbiguousHunkError, match="hunk 2"):
        apply(patch, tree(m=moved))


def test_hunks_out_of_order_are_refused() -> None:
    """The second hunk stands before the first: they overlap or their order is wrong."""
    patch = head() + HUNK + b"@@ -1,3 +1,3 @@\n line 1\n-line 2\n+TWO\n line 3\n"
    with pytest.raises(ContextMismatchError, match=r"hunk 2: .*before the end of the previous hunk"):
        apply(patch, tree())


def test_a_hunk_cut_at_the_end_of_the_file_stays_there() -> None:
    """Lines after what was the end are upstream's, so the place is no longer sure."""
    patch = head() + b"@@ -11,2 +11,3 @@\n line 11\n line 12\n+line 13\n"
    assert apply(patch, tree())["vllm/m.py"] == TEXT + b"line 13\n"
    with pytest.raises(ContextMismatchError, match="cut at the end of the file"):
        apply(patch, tree(m=TEXT + b"upstream\n"))
    first = head() + b"@@ -1,2 +1,3 @@\n+line 0\n line 1\n line 2\n"
    with pytest.raises(ContextMismatchError, match="cut at the start of the file"):
        apply(first, tree(m=b"upstream\n" + TEXT))


def test_line_endings_are_named() -> None:
    """A patch with LF on a CRLF file, and the reverse, is no context mismatch but line endings."""
    crlf = TEXT.replace(b"\n", b"\r\n")
    with pytest.raises(LineEndingsError, match=r"line endings: the patch has LF, the file CRLF"):
        apply(head() + HUNK, tree(m=crlf))
    body = HUNK.replace(b"\n", b"\r\n").replace(b"@@\r\n", b"@@\n")
    with pytest.raises(LineEndingsError, match=r"line endings: the patch has CRLF, the file LF"):
        apply(head() + body, tree())
    assert apply(head() + body, tree(m=crlf))["vllm/m.py"] == crlf.replace(b"line 6\r", b"line SIX\r")


def test_added_lines_keep_the_endings_of_the_file() -> None:
    """Context that fits does not excuse new lines that end otherwise."""
    with pytest.raises(LineEndingsError, match="an added line has CRLF, the file LF"):
        apply(head() + HUNK.replace(b"SIX\n", b"SIX\r\n"), tree())


def test_a_missing_newline_at_the_end_of_the_file() -> None:
    """Without its mark the patch is refused by that name, with the mark it applies."""
    patch = head() + b"@@ -11,3 +11,3 @@\n line 11\n line 12\n-last\n+LAST\n"
    mark = b"\\ No newline at end of file\n"
    marked = patch.replace(b"-last\n", b"-last\n" + mark) + mark
    with pytest.raises(NoNewlineError, match="true of the file, but the patch does not say so"):
        apply(patch, tree(m=TEXT + b"last"))
    assert apply(marked, tree(m=TEXT + b"last"))["vllm/m.py"] == TEXT + b"LAST"
    with pytest.raises(NoNewlineError, match="the patch says so, but the file has one"):
        apply(marked, tree(m=TEXT + b"last\n"))


def test_an_applied_patch_is_recognised() -> None:
    """The new side stands in the file: already applied, also with two hunks."""
    patch = head() + HUNK + b"@@ -9,3 +9,4 @@\n line 9\n line 10\n+ten and a half\n line 11\n"
    done = apply(patch, tree())["vllm/m.py"] or b""
    with pytest.raises(AlreadyAppliedError, match="already applied"):
        apply(patch, tree(m=done))


def test_half_applied_is_not_already_applied() -> None:
    """One of two hunks there is a mismatch, not a reason to drop the patch."""
    patch = head() + HUNK + b"@@ -9,3 +9,3 @@\n line 9\n-line 10\n+ten\n line 11\n"
    with pytest.raises(ContextMismatchError):
        apply(patch, tree(m=TEXT.replace(b"line 6\n", b"line SIX\n")))


def test_a_file_that_is_gone_is_looked_for_elsewhere() -> None:
    """No such file in this vLLM version, and where its hunks match now."""
    with pytest.raises(NoSuchFileError, match=r"no such file in this vLLM version") as caught:
        apply(head("vllm/old.py") + HUNK, tree(new=TEXT, other=b"x\n"))
    assert caught.value.cause == "its hunks match in vllm/new.py: renamed upstream?"
    assert caught.value.remedy == "re-diff the patch against vllm/new.py"
    with pytest.raises(NoSuchFileError) as caught:
        apply(head("vllm/old.py") + HUNK, tree(other=b"x\n"))
    assert caught.value.cause == "removed or renamed upstream"


def test_a_file_of_the_wheel_that_the_lean_flavour_leaves_out(tmp_path: Path) -> None:
    """It is not gone, and the remedy is the full flavour; a new file of that name is refused too."""
    below = DiskTree(tmp_path, frozenset({"vllm/tuned.json"}))
    with pytest.raises(NotInFlavourError, match=r"vllm/tuned.json: in the wheel") as caught:
        apply_patch(parse_patch("p", head("vllm/tuned.json") + HUNK), below)
    assert "--flavour full" in str(caught.value)
    created = b"--- /dev/null\n+++ b/vllm/tuned.json\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(NewFileExistsError):
        apply_patch(parse_patch("p", created), below)


def test_a_new_file_that_exists_is_compared() -> None:
    """The message says whether the content is the same, since the remedies differ."""
    created = b"--- /dev/null\n+++ b/vllm/x.py\n@@ -0,0 +1,2 @@\n+ours 1\n+ours 2\n"
    assert apply(created, tree()) == {"vllm/x.py": b"ours 1\nours 2\n"}
    with pytest.raises(NewFileExistsError, match="with different content"):
        apply(created, tree(x=b"upstream added me too\n"))
    with pytest.raises(NewFileExistsError, match="with identical content") as caught:
        apply(created, tree(x=b"ours 1\nours 2\n"))
    assert caught.value.remedy == "drop this part of the patch"


def test_a_plain_diff_creates_a_file_by_its_counts() -> None:
    """``-0,0`` with the name on both sides is how some tools write a new file."""
    created = head("vllm/x.py") + b"@@ -0,0 +1 @@\n+new\n"
    assert apply(created, tree()) == {"vllm/x.py": b"new\n"}
    assert apply(created, tree(x=b"")) == {"vllm/x.py": b"new\n"}
    with pytest.raises(NoContextError):
        apply(created, tree(x=b"something\n"))


def test_a_created_file_has_no_old_lines() -> None:
    """A creation with context contradicts itself."""
    with pytest.raises(CorruptPatchError, match="has old lines"):
        apply(b"--- /dev/null\n+++ b/vllm/x.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", tree())


def test_deletion_has_to_take_the_whole_file() -> None:
    """A deletion that leaves lines behind was cut against another file."""
    gone = b"--- a/vllm/m.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"
    assert apply(gone, tree(m=b"a\nb\n")) == {"vllm/m.py": None}
    with pytest.raises(ContextMismatchError):
        apply(gone, tree(m=b"a\nb\nc\n"))
    with pytest.raises(NoSuchFileError):
        apply(gone, tree(x=b"a\n"))
    part = b"--- a/vllm/m.py\n+++ /dev/null\n@@ -1,2 +1,1 @@\n-a\n b\n"
    with pytest.raises(ContextMismatchError, match="removes the file, but not 2 of its lines, first 'b"):
        apply(part, tree(m=b"a\nb\nc\n"))


def test_renames_and_copies() -> None:
    """A rename moves the content, changed or not; a copy keeps the old file; a taken name is refused."""
    moved = b"diff --git a/vllm/m.py b/vllm/n.py\nrename from vllm/m.py\nrename to vllm/n.py\n"
    assert apply(moved, tree()) == {"vllm/m.py": None, "vllm/n.py": TEXT}
    changed = moved + b"--- a/vllm/m.py\n+++ b/vllm/n.py\n" + HUNK
    assert apply(changed, tree())["vllm/n.py"] == TEXT.replace(b"line 6\n", b"line SIX\n")
    assert apply(moved.replace(b"rename", b"copy"), tree()) == {"vllm/n.py": TEXT}
    with pytest.raises(NewFileExistsError):
        apply(moved, tree(m=TEXT, n=b"x\n"))


def test_every_named_file_has_really_changed() -> None:
    """Two parts that undo each other leave a named file as it was, which is an error."""
    back = b"@@ -5,3 +5,3 @@\n line 5\n-line SIX\n+line 6\n line 7\n"
    with pytest.raises(UnchangedFileError, match=r"vllm/m.py: the same as before the patch"):
        apply(head() + HUNK + head() + back, tree())


def test_a_hunk_without_old_lines_has_no_place() -> None:
    """Zero context shows nothing, so an insertion by line number alone is refused."""
    with pytest.raises(NoContextError, match="git diff -U3"):
        apply(head() + b"@@ -5,0 +6 @@\n+x\n", tree())


def test_the_base_is_decided_once_per_patch() -> None:
    """Cut against the package folder or the tree around it gives the same; mixed is an error."""
    around, inside = head() + HUNK, head("m.py") + HUNK
    assert path_base(parse_patch("p", around)) == ""
    assert path_base(parse_patch("p", inside)) == "vllm/"
    assert apply(around, tree()) == apply(inside, tree())
    with pytest.raises(MixedBaseError, match=r"vllm/m.py names the vllm folder, tests/t.py does not"):
        apply(around + head("tests/t.py") + HUNK, tree())


def test_files_made_in_a_folder_that_the_package_lacks_are_not_put_below_it() -> None:
    """A patch of new files alone shows by their folders that it is cut against the package, or is refused."""
    new = b"@@ -0,0 +1 @@\n+new\n"
    below = MemoryTree({"vllm/m.py": TEXT, "vllm/v1/n.py": TEXT})
    for path in ("csrc/x.cu", "setup_x.py"):
        for created in (made(path) + new, head(path) + new):
            with pytest.raises(UnplacedPatchError, match=f"{path}: nothing shows") as caught:
                apply_patch(parse_patch("p", created), below)
            assert f"vllm/{path}" in (caught.value.remedy or "")
    inside = apply_patch(parse_patch("p", made("v1/x.py") + new), below)
    assert inside.files == {"vllm/v1/x.py": b"new\n"}
    beside = apply_patch(parse_patch("p", head("m.py") + HUNK + made("fresh/x.py") + new), below)
    assert sorted(beside.files) == ["vllm/fresh/x.py", "vllm/m.py"]


def test_a_series_is_cumulative_and_all_or_nothing() -> None:
    """A later patch sees the earlier ones; one bad file in the second patch stops the whole series."""
    first = parse_patch("1", head() + HUNK)
    second = parse_patch(
        "2", head() + HUNK.replace(b"line SIX", b"line 66").replace(b"-line 6\n", b"-line SIX\n")
    )
    done = apply_series([first, second], tree())
    assert done[1].files["vllm/m.py"] == TEXT.replace(b"line 6\n", b"line 66\n")
    bad = parse_patch("3", head() + HUNK.replace(b"line 6\n", b"line SIX\n").replace(b"+line SIX", b"+7")
                      + head("vllm/n.py") + HUNK.replace(b"-line 6", b"-no such line"))  # fmt: skip
    below = tree(m=TEXT, n=TEXT)
    with pytest.raises(ContextMismatchError, match=r"^3:\d+, vllm/n.py, hunk 1"):
        apply_series([first, bad], below)
    assert below.files == {"vllm/m.py": TEXT, "vllm/n.py": TEXT}


def test_the_wrong_order_is_named() -> None:
    """A patch that misses what a later one brings is told so, lines or whole files; any other is not."""
    first = parse_patch("first.patch", head() + HUNK)
    second = parse_patch(
        "second.patch", head() + HUNK.replace(b"line SIX", b"line 66").replace(b"-line 6\n", b"-line SIX\n")
    )
    with pytest.raises(ContextMismatchError) as caught:
        apply_series([second, first], tree())
    assert caught.value.cause == "it applies once first.patch is there, and the series has that after it"
    assert caught.value.remedy == "list first.patch before second.patch in the file series"
    with pytest.raises(ContextMismatchError) as caught:
        apply_series([second], tree())
    assert "this vLLM version has other lines" in (caught.value.cause or "")
    new = made("vllm/v1/x.py") + b"@@ -0,0 +1,2 @@\n+one\n+two\n"
    changed = head("vllm/v1/x.py") + b"@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    below = MemoryTree({"vllm/m.py": TEXT, "vllm/v1/n.py": TEXT})
    makes = parse_patch("makes.patch", head() + HUNK + new)
    needs = parse_patch("needs.patch", head("vllm/v1/n.py") + HUNK + changed)
    with pytest.raises(NoSuchFileError) as missing:
        apply_series([needs, makes], below)
    assert missing.value.remedy == "list makes.patch before needs.patch in the file series"
    assert len(apply_series([makes, needs], below)) == 2
    moved = MemoryTree({"vllm/m.py": TEXT, "vllm/v1/moved.py": TEXT})
    with pytest.raises(NoSuchFileError) as missing:
        apply_series([parse_patch("one.patch", head("vllm/v1/n.py") + HUNK), makes], moved)
    assert "renamed upstream?" in (missing.value.cause or "")
    other = parse_patch("other.patch", head() + HUNK.replace(b"line 6\n", b"no such line\n"))
    with pytest.raises(ContextMismatchError) as caught:
        apply_series([other, first], tree())
    assert "this vLLM version has other lines" in (caught.value.cause or "")


def git_apply(folder: Path, patch: bytes) -> int:
    """Exit code of ``git apply`` in ``folder``, kept from any repository around it."""
    guard = {"GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ["git", "apply", "--unsafe-paths", "-"], cwd=folder, input=patch, env=os.environ | guard,
        capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode


def random_edit(lines: list[bytes], rng: random.Random) -> list[bytes]:
    """A few lines replaced, added or removed."""
    out = list(lines)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out))
        out[at : at + rng.randint(0, 2)] = [b"new %d\n" % rng.randrange(9) for _ in range(rng.randint(0, 2))]
    return out


@pytest.mark.parametrize("seed", range(24))
def test_what_applies_gives_what_git_apply_gives(seed: int, tmp_path: Path) -> None:
    """Random files, edits and drifts: where both apply a patch, the bytes are the same."""
    rng = random.Random(seed)
    old = [b"%s %d\n" % (rng.choice([b"if", b"for", b"x"]), rng.randrange(30)) for _ in range(60)]
    new = random_edit(old, rng)
    if new == old:
        new = [*old, b"end\n"]
    body = difflib.diff_bytes(difflib.unified_diff, old, new, b"a/vllm/m.py", b"b/vllm/m.py")
    patch = b"".join(body)
    drifted = random_edit(old, rng) if seed % 2 else [b"top\n"] * (seed % 5) + old
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/m.py").write_bytes(b"".join(drifted))
    code = git_apply(tmp_path, patch)
    try:
        mine = apply(patch, tree(m=b"".join(drifted)))["vllm/m.py"]
    except PatchError:
        return
    if code == 0:
        assert mine == (tmp_path / "vllm/m.py").read_bytes()
    if drifted == old:
        assert (code, mine) == (0, b"".join(new))
