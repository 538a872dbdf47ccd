"""TOML mistakes have a line; patterns know two wildcards only."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.gate.policy import PolicyError
from ci.gate.tables import matches, place, table_line
from tests.gate.samples import policy


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("*", "anything/at all\n", True),
        ("grid", "grid", True),
        ("grid", "grid2", False),
        ("gr?d", "grid", True),
        ("gr?d", "grd", False),
        ("units-[16,1]", "units-[16,1]", True),
        ("units-[16,1]", "units-1", False),
        ("units-*", "units-[16,1]", True),
        ("*-rows", "control-seq-rows", True),
        ("*-rows", "control-seq-rows-more", False),
        ("a.c", "abc", False),
        ("GRID", "grid", False),
        ("**", "", True),
    ],
)
def test_patterns(pattern: str, name: str, expected: bool) -> None:
    """Only * and ? are special; brackets and dots stand for themselves; the whole name must fit."""
    assert matches(pattern, name) is expected


def test_many_stars_are_no_trap() -> None:
    """A pattern of many stars against a long name ends at once."""
    assert not matches("*a" * 8 + "b", "a" * 60)


def test_lines_of_tables() -> None:
    """The n-th table of a name is found, comments and other tables aside."""
    text = "schema = 1\n[[rule]]\n# [[rule]]\n[[other]]\n  [[ rule ]] # second\n"
    assert [table_line(text, "rule", index) for index in range(3)] == [2, 5, None]


def test_a_number_in_quotes_is_no_number() -> None:
    """Values are not converted: a person who wrote a text is told so."""
    text = 'schema = "1"\n[[rule]]\nmatch = "*/*/*"\nkind = "exact"\norigin = "o"'
    with pytest.raises(PolicyError, match="Expected `int`"):
        policy(text)


def test_a_field_of_a_wrong_type_is_named_with_the_line_of_its_table() -> None:
    """A reader of a long file is sent to the second rule, not to its begin."""
    rule = '[[rule]]\nmatch = "*/*/*"\nkind = "exact"\norigin = "o"\n'
    with pytest.raises(PolicyError, match=r"policy\.toml:6: .*about"):
        policy("schema = 1\n" + rule + rule.replace("exact", "about"))


@pytest.mark.parametrize(("line", "shown"), [(None, "a.toml"), (3, "a.toml:3"), (0, "a.toml:0")])
def test_place(line: int | None, shown: str) -> None:
    """The line stands behind the path where it is known."""
    assert place(Path("a.toml"), line) == shown
