"""The command over logs, and over stand-in engines that print a census."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci import cli
from ci.commands import boots, census
from ci.engine.boot import Launch
from ci.engine.bootlog import closing_line
from ci.errors import ExitCode
from ci.lanes.gpu import parse_state

ENGINE = Path(__file__).parents[1] / "engine"
PATCHED = (ENGINE / "logs" / "v0.27-patched.log").read_text(encoding="utf-8")
QUIET = parse_state({"uuid": "GPU-1", "memory.total": "24576", "memory.used": "300"}, None, ())
PREFILL = "max_query_len_policy>16"


def line(tokens: int, seqs: int, longest: int, path: str = "3D", reasons: str = "NONE(3d eligible)") -> str:
    """One dispatch line."""
    return (
        f"(EngineCore pid=412) INFO 10-05 09:14:02 [i.py:860] int4 mq3d dispatch: tokens={tokens} "
        f"num_seqs={seqs} max_seqlen_q={longest} path={path} reasons={reasons}\n"
    )


DEPTH_15 = "".join(line(width, 1, width) for width in range(9, 17)) + line(1840, 1, 1840, "2D", PREFILL)


def closed(text: str) -> bytes:
    """The log of a boot that answered, closed by the harness."""
    log = (PATCHED + text).encode()
    return log + closing_line(log, healthy=True, served=1)


def asked(tmp_path: Path, log: bytes, *options: str) -> int:
    """The command over a log."""
    path = tmp_path / "boot.log"
    path.write_bytes(log)
    return cli.main(["census", "--log", str(path), *options])


def test_a_whole_log_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table is shown, with what was not seen, and the verdict stands on the last line."""
    assert asked(tmp_path, closed(DEPTH_15), "--depth", "15") == 0
    out = capsys.readouterr().out
    assert "query tokens  sequences  longest  path  reason                   calls" in out
    assert "        1840          1     1840  2D    max_query_len_policy>16      1" in out
    assert "graph mode unknown: replayed steps print nothing, so steps are unseen" in out
    assert out.splitlines()[-1].startswith("verdict: pass - census of ")
    assert out.splitlines()[-1].endswith("0 rules broken (exit 0)")


def test_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As Markdown the log's words stand in code."""
    assert asked(tmp_path, closed(DEPTH_15), "--markdown") == 0
    out = capsys.readouterr().out
    assert "| query tokens | sequences | longest | path | reason | calls |\n| ---: |" in out
    assert "| `1840` | `1` | `1840` | `2D` | `max_query_len_policy>16` | `1` |" in out


@pytest.mark.parametrize(
    ("text", "options", "code", "words"),
    [
        (DEPTH_15 + line(9, 1, 9, "2D", "q_token_capacity_failed"), (), 1, "fell back for lack of scratch"),
        (line(9, 1, 9), ("--depth", "15"), 1, "no batch of width 10 was seen"),
        ("nothing\n", (), 2, "no dispatch line"),
        (DEPTH_15[:-30] + "\n", ("--depth", "15"), 2, "1 dispatch lines are cut"),
    ],
)
def test_exit_codes(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    options: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    """A broken rule is 1; a log that says nothing, or is cut within a line, gives no verdict."""
    assert asked(tmp_path, closed(text), *options) == code
    out = capsys.readouterr().out
    assert words in out
    assert out.splitlines()[-1].endswith(f"(exit {code})")


def test_a_cut_log_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log that may be cut gives no verdict, cut at whatever line, unless somebody says that it is whole."""
    lines = closed(DEPTH_15).splitlines(keepends=True)
    for cut in range(len(lines)):
        assert asked(tmp_path, b"".join(lines[:cut])) == 2
    assert "so it may be cut" in capsys.readouterr().out
    assert asked(tmp_path, b"".join(lines[:-1]), "--whole") == 0


def test_either_a_profile_or_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither, both, a profile without its debug lines, and a log that is not there are refused."""
    assert cli.main(["census"]) == 2
    assert cli.main(["census", "any-gpu-census15", "--log", "x"]) == 2
    assert cli.main(["census", "any-gpu-dummy15"]) == 2
    assert "boots without VLLM_INT4_MQ_3D_DEBUG=1" in capsys.readouterr().err
    assert cli.main(["census", "--log", str(tmp_path / "none")]) == 2
    for option in ("--depth", "--layers"):
        assert cli.main(["census", "--log", "x", option, "0"]) == 2
        assert f"{option} 0: at least 1" in capsys.readouterr().err


def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lines: str, *traits: str) -> None:
    """A machine whose engine prints these lines."""

    def launch(profile: Any, seqs: int, root: Path, folder: Path, variables: Any, **more: Any) -> Launch:
        log = tmp_path / "lines.log"
        log.write_text(PATCHED + lines)
        command = (sys.executable, str(ENGINE / "stand_in.py"), "{port}", str(log), *traits)
        return Launch("stand-in", command, dict(os.environ), folder, 20.0)

    arm = SimpleNamespace(
        name="patched", root=Path("patched"), manifest=SimpleNamespace(series_hash="patched")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(boots, "detect_lane", lambda: "h200")
    monkeypatch.setattr(boots, "read_conditions", lambda lane: {"environment": "native", "lane": lane})
    for module in (boots, census):
        monkeypatch.setattr(module, "read_state", lambda: QUIET)
    monkeypatch.setattr(boots, "abandoned", list)  # other tests have some of their own
    monkeypatch.setattr(boots, "load_average", lambda: 0.0)
    monkeypatch.setattr(boots, "arms_by_name", lambda *_: {arm.name: arm})
    monkeypatch.setattr(boots, "serve_launch", launch)


def test_a_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A boot is asked every question, and its lines are judged."""
    machine(monkeypatch, tmp_path, DEPTH_15)
    assert cli.main(["census", "any-gpu-census15"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "verdict: pass - census of any-gpu-census15, 0 rules broken (exit 0)"
    )


@pytest.mark.parametrize(
    ("lines", "traits", "words", "code"),
    [
        (DEPTH_15, ("mute",), "0 of 12 requests were answered", ExitCode.NO_VERDICT),
        (DEPTH_15, ("skips",), "11 of 12 requests were answered", ExitCode.NO_VERDICT),
        (DEPTH_15, ("oom",), "the boot is not whole", ExitCode.NO_VERDICT),
        (line(9, 1, 9), (), "no batch of width 16 was seen", ExitCode.REGRESSED),
    ],
)
def test_a_boot_that_shows_too_little(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lines: str,
    traits: tuple[str, ...],
    words: str,
    code: ExitCode,
) -> None:
    """A boot that dies or leaves requests unanswered says nothing, one without such a batch breaks a rule."""
    machine(monkeypatch, tmp_path, lines, *traits)
    assert cli.main(["census", "any-gpu-census15"]) == code
    assert words in capsys.readouterr().out


def test_no_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a GPU there is no boot, and the message says where to go."""
    monkeypatch.setattr(boots, "detect_lane", lambda: "cpu")
    assert cli.main(["census", "any-gpu-census15"]) == 2
    assert "there is no GPU to boot on" in capsys.readouterr().err
