from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "changelog.d"
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.(added|changed|fixed|removed|baseline)\.md")
MAX_CHARS = 600


def fragments() -> list[Path]:
    """Every file of the folder but its README."""
    return sorted(path for path in FOLDER.iterdir() if path.name != "README.md")


@pytest.mark.parametrize("path", fragments(), ids=lambda path: path.name)
def test_a_fragment_can_be_joined_into_a_changelog(path: Path) -> None:
    """A fragment has a kind in its name and a short text without a heading."""
    assert NAME.fullmatch(path.name), f"name it words-with-hyphens.KIND.md; see {FOLDER.name}/README.md"
    text = path.read_text(encoding="utf-8")
    assert text.strip()
    assert len(text) <= MAX_CHARS
    assert not text.lstrip().startswith("#")


def test_the_readme_lists_the_kinds_that_are_checked() -> None:
    """The table of kinds and the check agree."""
    listed = re.findall(r"^\| `(\w+)` \|", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == ["added", "changed", "fixed", "removed", "baseline"]
