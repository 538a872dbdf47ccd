from __future__ import annotations

from pathlib import Path

import pytest

from ci.lanes.outputs import OutputNameError, output_block, write_outputs


def read(text: str) -> dict[str, str]:
    """What GitHub's runner makes of the file: a name and a delimiter, then lines up to the delimiter."""
    found: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        name, _, delimiter = line.partition("<<")
        body: list[str] = []
        for inner in lines:
            if inner == delimiter:
                break
            body.append(inner)
        found[name] = "\n".join(body)
    return found


@pytest.mark.parametrize("value", ["", "x", "EOF\noutcome<<EOF\nsuccess\nEOF", "a\nb\n", '[{"lane":"cpu"}]'])
def test_a_value_comes_back_as_it_was(value: str, tmp_path: Path) -> None:
    """A value that holds a usual delimiter and another output is still one value."""
    path = tmp_path / "out"
    path.write_text("before<<x\n1\nx\n")
    write_outputs(path, {"cells": value, "any": "true"})
    assert read(path.read_text()) == {"before": "1", "cells": value, "any": "true"}


def test_a_delimiter_that_the_value_has_is_not_used() -> None:
    """Given or drawn, it is replaced."""
    block = output_block("a", "x\nend\ny", delimiter="end")
    assert "<<end\n" not in block
    assert read(block) == {"a": "x\nend\ny"}


def test_two_delimiters_differ() -> None:
    """They are random: nobody who writes a value can know the one it will get."""
    assert output_block("a", "1") != output_block("a", "1")


@pytest.mark.parametrize("name", ["", "a b", "a=b", "a\nb", "a<<b"])
def test_a_name_sets_one_output(name: str) -> None:
    """A name cannot smuggle in another line."""
    with pytest.raises(OutputNameError):
        output_block(name, "1")
