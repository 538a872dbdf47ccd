from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ci.errors import UsageError
from ci.stack.errors import (
    DoubledPatchError,
    EmptySeriesError,
    MissingPatchError,
    SeriesSyntaxError,
    UnlistedPatchError,
)
from ci.stack.series import OWN_SERIES, list_entries, parse_series, read_series, series_folder

PATCH = "--- a/vllm/m.py\n+++ b/vllm/m.py\n@@ -5,3 +5,3 @@\n line 5\n-line 6\n+line SIX\n line 7\n"


def names(data: bytes) -> list[tuple[str, int, int | None]]:
    """Name, strip and line of each entry."""
    return [(entry.name, entry.strip, entry.line) for entry in parse_series(data, "series")]


def test_every_form_of_the_grammar() -> None:
    """Byte order mark, CRLF, comments, -pN, spaces in names no last newline: read as defined."""
    data = (
        b"\xef\xbb\xbf# comment\r\n"
        b"0001-x.patch -p0 # trailing comment\r\n"
        b"\r\n"
        b"   0002 with space.patch   -p2\r\n"
        b"\t# another\n"
        b"c#sharp.patch\n"
        b"0003 - dash.patch"
    )
    assert names(data) == [
        ("0001-x.patch", 0, 2),
        ("0002 with space.patch", 2, 4),
        ("c#sharp.patch", 1, 6),
        ("0003 - dash.patch", 1, 7),
    ]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("a.patch -R", "only the option -pN"),
        ("-p1 a.patch", "only the option -pN"),
        ("a.patch -p1 -R", "only the option -pN"),
        ("sub/a.patch", "no slash"),
        ("../a.patch", "no slash"),
        ("..", "no slash"),
        ("sub\\a.patch", "no slash"),
        ("a\x07.patch", "control character"),
    ],
)
def test_a_line_outside_the_grammar_names_its_line(line: str, what: str) -> None:
    """What the grammar does not know is refused with file and line, not guessed."""
    with pytest.raises(SeriesSyntaxError, match=rf"^dir/series:2: .*{what}"):
        parse_series(f"# first\n{line}\n".encode(), "dir/series")


def test_a_series_that_is_not_utf8_names_the_line() -> None:
    """Bytes that are no UTF-8 are refused with their line."""
    with pytest.raises(SeriesSyntaxError, match="series:2: not UTF-8"):
        parse_series(b"a.patch\nb\xff.patch\n", "series")


def test_a_doubled_entry_names_both_lines() -> None:
    """The same patch twice is an error, also with another -pN."""
    with pytest.raises(DoubledPatchError, match=r"series:3: a.patch is listed twice, first on line 1"):
        parse_series(b"a.patch\nb.patch\na.patch -p0", "series")


def test_a_series_of_comments_alone_is_empty() -> None:
    """A series that names nothing is an error, since it would gate the stock wheel in silence."""
    with pytest.raises(EmptySeriesError):
        parse_series(b"# nothing\n\n", "series")


def test_an_unlisted_patch_is_an_error_before_any_patch_is_read(make_series: Callable[..., Path]) -> None:
    """A patch in the folder that the series does not name stops everything, broken patches or not."""
    folder = make_series({"a.patch": "garbage", "b.patch": PATCH, "c.diff": PATCH}, "a.patch\n")
    with pytest.raises(UnlistedPatchError, match=r"not listed in series: b\.patch, c\.diff"):
        read_series(folder)


def test_an_unlisted_patch_in_capitals_is_one_too(make_series: Callable[..., Path]) -> None:
    """A file system that ignores case, or a person, may write the suffix otherwise."""
    folder = make_series({"a.patch": PATCH, "B.PATCH": PATCH, "c.Diff": PATCH}, "a.patch\n")
    with pytest.raises(UnlistedPatchError, match=r"not listed in series: B\.PATCH, c\.Diff"):
        read_series(folder)


def test_a_missing_patch_names_file_and_line(make_series: Callable[..., Path]) -> None:
    """A listed file that is not there is an error that gives the line."""
    folder = make_series({"a.patch": PATCH}, "a.patch\n\ngone.patch\n")
    with pytest.raises(MissingPatchError, match=r"gone\.patch \(line 3\)"):
        read_series(folder)


def test_other_files_of_the_folder_do_not_count(make_series: Callable[..., Path]) -> None:
    """README, arms.toml and the like are no patches."""
    folder = make_series({"a.patch": PATCH, "README.md": "x", "a.patch.orig": "x"}, "a.patch\n")
    assert [patch.name for patch in read_series(folder).patches] == ["a.patch"]


def test_a_folder_without_series_is_taken_in_name_order_and_says_so(make_series: Callable[..., Path]) -> None:
    """Without a series file the sorted names are the order, and the note tells it."""
    folder = make_series({"0002-b.patch": PATCH, "0001-a.patch": PATCH, "notes.txt": "x"}, None)
    series = read_series(folder)
    assert [patch.name for patch in series.patches] == ["0001-a.patch", "0002-b.patch"]
    assert series.note is not None
    assert "no series file: its 2 patches are taken in name order" in series.note


def test_a_folder_with_a_series_has_no_note(make_series: Callable[..., Path]) -> None:
    """The note is only for the unusual case."""
    assert list_entries(make_series({"a.patch": PATCH}))[1] is None


def test_no_patches_and_no_folder(make_series: Callable[..., Path], tmp_path: Path) -> None:
    """An empty folder and an absent one are two different errors."""
    with pytest.raises(EmptySeriesError, match="no patches"):
        read_series(make_series({}, None))
    with pytest.raises(UsageError, match="no such folder"):
        read_series(tmp_path / "absent")


def test_the_option_wins_over_the_variable_and_that_over_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """--series, then FORKPROOF_SERIES, then patches/."""
    assert series_folder(None) == OWN_SERIES
    monkeypatch.setenv("FORKPROOF_SERIES", "/elsewhere")
    assert series_folder(None) == Path("/elsewhere")
    assert series_folder("/given") == Path("/given")
