"""Write a step's outputs so that no value can end early and set another."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from ci.errors import GateError
from ci.results.files import append


class OutputNameError(GateError):
    """A step's output cannot have this name."""


def output_block(name: str, value: str, delimiter: str | None = None) -> str:
    """One output in GitHub's file form.

    Args:
        name: letters, digits, ``_`` and ``-``.
        value: any text.
        delimiter: the line that ends the value; a random one by default, never one that the value has.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name):
        raise OutputNameError(f"{name!r} cannot name an output")
    while delimiter is None or delimiter in value:
        delimiter = f"end-{secrets.token_hex(16)}"
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def write_outputs(path: Path, values: Mapping[str, str]) -> None:
    """Append outputs to the file that ``GITHUB_OUTPUT`` names."""
    text = "".join(output_block(name, value) for name, value in values.items())
    append(path, text.encode())
