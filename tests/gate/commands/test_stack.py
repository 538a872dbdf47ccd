from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest

from ci.cli import main
from ci.commands import stack
from ci.commands.stack import offset_lines
from ci.stack import arms, verify
from ci.stack.locate import WheelSource
from ci.stack.pin import Pin
from ci.stack.place import Placement

TEXT = "".join(f"line {n}\n" for n in range(1, 13))
ONE = "--- a/vllm/m.py\n+++ b/vllm/m.py\n@@ -5,3 +5,3 @@\n line 5\n-line 6\n+line SIX\n line 7\n"


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A wheel of one module as the pin, a series of one patch, a cache of its own; returns the series."""
    files = {"vllm/m.py": TEXT}
    rows = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip('=')},"
        f"{len(text)}\n"
        for name, text in files.items()
    )
    files["vllm-9.dist-info/RECORD"] = rows
    path = tmp_path / "vllm-9-cp38-abi3-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    pin = Pin("9", path.name, hashlib.sha256(path.read_bytes()).hexdigest(),
              hashlib.sha256(rows.encode()).hexdigest(), "1", "1")  # fmt: skip
    for function in (arms.build, verify.verify_arm):
        values = list(function.__defaults__ or ())
        named = function.__code__.co_varnames[: function.__code__.co_argcount][-len(values) :]
        new = {"pin": pin, "locate": lambda *_: WheelSource(path.as_uri())}
        monkeypatch.setattr(
            function, "__defaults__", tuple(new.get(n, v) for n, v in zip(named, values, strict=True))
        )
    monkeypatch.setattr(stack, "PIN", pin)
    series = tmp_path / "patches"
    series.mkdir()
    (series / "1.patch").write_text(ONE)
    monkeypatch.setenv("FORKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FORKPROOF_SERIES", str(series))
    return series


def test_build_says_what_it_made(capsys: pytest.CaptureFixture[str]) -> None:
    """Patches, wheel, hunks, arms, and a last line that agrees with the exit code."""
    assert main(["stack", "build"]) == 0
    out = capsys.readouterr().out
    assert "has no series file: its 1 patches are taken in name order" in out
    assert "hunks   1 found, each on its stated line" in out
    assert [line.split()[0] for line in out.splitlines() if "/cache/arms/" in line] == ["stock", "patched"]
    assert out.splitlines()[-1].startswith("verdict: pass - 2 arms ready in ")
    assert out.endswith("(exit 0)\n")


def test_a_patch_that_fails_ends_with_exit_2(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Patch, file, hunk and remedy on stderr; no arm is left."""
    (tiny / "1.patch").write_text(ONE.replace("line 7", "line seven"))
    assert main(["stack", "build"]) == 2
    err = capsys.readouterr().err
    assert "error: 1.patch:3, vllm/m.py, hunk 1: context does not match" in err
    assert "remedy: re-diff" in err
    assert err.endswith("(exit 2)\n")
    assert not list(tiny.parent.glob("cache/arms/*/*"))


def test_verify_passes_then_names_the_file_that_changed(capsys: pytest.CaptureFixture[str]) -> None:
    """As built is exit 0; an edited file is exit 2 with its name; a build mends it."""
    main(["stack", "build"])
    assert main(["stack", "verify"]) == 0
    assert capsys.readouterr().out.endswith("verdict: pass - 2 arms as built, 4 files hashed (exit 0)\n")
    main(["stack", "path", "--arm", "patched"])
    file = Path(capsys.readouterr().out.strip()) / "vllm/m.py"
    file.unlink()
    file.write_text("edited\n")
    assert main(["stack", "verify"]) == 2
    out = capsys.readouterr().out
    assert "  changed  vllm/m.py" in out
    assert out.endswith("verdict: no verdict - changed since it was built: patched (exit 2)\n")
    assert main(["stack", "build"]) == 0
    assert main(["stack", "verify"]) == 0


def test_verify_of_what_is_not_built(capsys: pytest.CaptureFixture[str]) -> None:
    """No arm is no verdict, with the command that makes one."""
    assert main(["stack", "verify"]) == 2
    assert "remedy: python -m ci stack build" in capsys.readouterr().err


def test_list_shows_arms_built_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    """Every arm of the series with its hash and whether it is there."""
    main(["stack", "build", "--arm", "stock"])
    capsys.readouterr()
    assert main(["stack", "list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "/cache/arms/" in line]
    assert [(row[0], row[1], row[3]) for row in rows] == [("stock", "0", "yes"), ("patched", "1", "no")]


def test_path_prints_the_folder_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """It can stand in a shell's PYTHONPATH=$(...)."""
    assert main(["stack", "path"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "line SIX" in (Path(out.strip()) / "vllm/m.py").read_text()


def test_a_series_can_be_named_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--series wins over FORKPROOF_SERIES, and an unknown arm lists the known ones."""
    monkeypatch.setenv("FORKPROOF_SERIES", "/nowhere")
    assert main(["stack", "build", "--series", str(tmp_path / "patches"), "--arm", "mq3d"]) == 2
    assert "name one of: stock, patched" in capsys.readouterr().err


def test_whole_files_have_no_hunk_to_find() -> None:
    """A series that only adds files does not claim that zero hunks were found in their places."""
    assert offset_lines([]) == ["hunks   none to find: no existing file is changed"]


def test_every_offset_is_listed() -> None:
    """Hunks that moved are counted per patch and named one by one."""
    placements = [Placement("a.patch", "m.py", 1, 5, 45), Placement("a.patch", "m.py", 2, 50, 50),
                  Placement("b.patch", "n.py", 3, 9, 7)]  # fmt: skip
    assert offset_lines(placements) == [
        "hunks   3 found, 2 at an offset (a.patch 1, b.patch 1):",
        "  a.patch, m.py, hunk 1: line 45 instead of 5 (offset +40)",
        "  b.patch, n.py, hunk 3: line 7 instead of 9 (offset -2)",
    ]


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    """--help of the command and of an action show how they are used."""
    for words in (["stack", "--help"], ["stack", "build", "--help"]):
        with pytest.raises(SystemExit):
            main(words)
        assert "python -m ci stack build --series ~/patches" in capsys.readouterr().out
