"""Which arms a session asks for: those it was told, in the flavour of its lane unless another is named."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import pytest

from ci import cli
from ci.commands import boots, run, throughput
from ci.errors import UsageError
from ci.stack.record import Flavour


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (boots, ["boots", "any-gpu-dummy7", "--subject", "patched"]),
        (throughput, ["throughput", "any-gpu-verify", "--arm", "patched"]),
        (throughput, ["quality", "any-gpu-verify", "--arm", "patched"]),
    ],
)
def test_commands_ask_for_what_they_were_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: ModuleType, words: list[str]
) -> None:
    """Arm, series and flavour come from the command line, the lane from the machine."""
    asked: list[tuple[Any, ...]] = []

    def arms_by_name(*wanted: Any) -> NoReturn:
        asked.append(wanted)
        raise UsageError("enough was seen")

    monkeypatch.chdir(tmp_path)
    for one in (boots, throughput):
        monkeypatch.setattr(one, "detect_lane", lambda: "rtx4090")
    monkeypatch.setattr(throughput, "names_up_to", lambda *_: ["stock", "patched"])
    monkeypatch.setattr(module, "arms_by_name", arms_by_name)
    assert cli.main([*words, "--series", "mine", "--flavour", "lean"]) == 2
    assert asked == [("patched", Path("mine"), "rtx4090", Flavour.LEAN)]


@pytest.mark.parametrize(
    ("lane", "named", "flavour"),
    [
        ("cpu", None, Flavour.LEAN),
        ("rtx4090", None, Flavour.FULL),
        ("rtx4090", Flavour.LEAN, Flavour.LEAN),
    ],
)
def test_arms_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lane: str, named: Flavour | None, flavour: Flavour
) -> None:
    """The arms of that flavour alone are built, and they keep the order of the series."""
    monkeypatch.delenv(run.FLAVOUR_VARIABLE, raising=False)
    built: list[set[Flavour]] = []

    def find_arms(name: str | None, series: Path | None, flavours: set[Flavour]) -> dict[Flavour, list[Any]]:
        assert (name, series) == ("patched", tmp_path)
        built.append(flavours)
        return {one: [SimpleNamespace(name="stock"), SimpleNamespace(name="patched")] for one in flavours}

    monkeypatch.setattr(run, "find_arms", find_arms)
    assert list(run.arms_by_name("patched", tmp_path, lane, named)) == ["stock", "patched"]
    assert built == [{flavour}]
