"""The command over stand-in engines: rows, verdicts, going on, and breaks that must be seen."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ci import cli
from ci.commands import boots
from ci.engine.boot import Launch
from tests.gate.commands.played_boots import PATCHED, play
from tests.gate.commands.played_machine import ENGINE, QUIET


@pytest.fixture
def booted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the boots that the playing machine made."""
    return play(tmp_path, monkeypatch)


BANDS = 'schema = 1\n[[band]]\nlane = "rtx4090"\nlow_mib = -0.9\nhigh_mib = 5.0\norigin = "published"\n'


def with_bands(folder: Path) -> None:
    """Bands where the command looks for them."""
    (folder / "baselines").mkdir()
    (folder / "baselines" / "bands.toml").write_text(BANDS)


def test_a_row_passes_and_is_not_booted_again(
    booted: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three boots make a row; run again, it is judged from what was kept."""
    with_bands(tmp_path)
    monkeypatch.setattr(boots.review, "default_baselines", lambda: tmp_path / "baselines")
    assert cli.main(["boots", "any-gpu-dummy7", "--seqs", "16"]) == 0
    assert booted == ["token-units-16-1", "patched-16-1", "token-units-16-2"]
    out = capsys.readouterr().out
    assert "225.75 MiB" in out
    assert "-225.28 MiB" in out
    assert "-8,141" in out
    assert "8 adopted / 0 after" in out
    assert out.splitlines()[-1] == "verdict: pass - 1 rows of any-gpu-dummy7 on rtx4090 (exit 0)"
    assert cli.main(["boots", "any-gpu-dummy7", "--seqs", "16"]) == 0
    assert len(booted) == 3


def test_another_series_is_another_session(
    booted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an edit of a patch the boots of the earlier arm are neither taken nor in the way."""
    monkeypatch.setattr(boots.review, "default_baselines", lambda: tmp_path / "none")
    original = boots.arms_by_name(None, None, "rtx4090", None)
    cli.main(["boots", "any-gpu-dummy7", "--seqs", "16"])
    for arm in original.values():
        arm.manifest.series_hash += "-edited"
    monkeypatch.setattr(boots, "arms_by_name", lambda *_: original)
    cli.main(["boots", "any-gpu-dummy7", "--seqs", "16"])
    assert len(booted) == 6


@pytest.mark.usefixtures("booted")
def test_a_folder_that_cannot_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A link to itself is named, and is no fault of the gate."""
    (tmp_path / "loop").symlink_to("loop")
    assert cli.main(["boots", "any-gpu-dummy7", "--seqs", "16", "--session", str(tmp_path / "loop")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {tmp_path / 'loop'}")
    assert "remedy: " in err


def test_a_boot_with_a_problem_says_how_to_repeat_it(
    booted: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed boot is kept, makes its row invalid each time, and the way to boot it again is shown."""
    failing(monkeypatch, tmp_path, dying(), "oom")
    for _ in range(2):
        assert cli.main(["boots", "any-gpu-dummy7", "--seqs", "16"]) == 2
        out = capsys.readouterr().out
        assert "note: patched-16-1: failed: out of memory; delete " in out
    (kept,) = Path("results/boots").rglob("patched-16-1.json")
    assert str(kept.resolve()) in out


def test_lane_without_band(
    booted: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a band the same row is new, and the table is shown all the same."""
    monkeypatch.setattr(boots.review, "default_baselines", lambda: tmp_path / "none")
    assert cli.main(["boots", "any-gpu-dummy7", "--seqs", "16"]) == 2
    out = capsys.readouterr().out
    assert "this lane has no band yet" in out
    assert out.splitlines()[-1].startswith("verdict: new")
    assert len(booted) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--seqs", "16", "--seqs", "0"], "--seqs 0: at least 1"),
        (["--attempts", "-1"], "--attempts -1: at least 1"),
        (["--attempts", "2"], "any-gpu-dummy7 expects its boots to succeed"),
    ],
)
def test_unusable_options(
    booted: list[str], capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    """Numbers that no boot can have are refused before anything boots."""
    assert cli.main(["boots", "any-gpu-dummy7", *options]) == 2
    assert words in capsys.readouterr().err
    assert booted == []


def test_profile_of_another_lane_is_refused(
    booted: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile is not run on a machine of another lane, and nothing boots."""
    assert cli.main(["boots", "rtx3090-memory"]) == 2
    assert "is for rtx3090, this machine is rtx4090" in capsys.readouterr().err
    monkeypatch.setattr(boots, "detect_lane", lambda: "cpu")
    assert cli.main(["boots", "any-gpu-dummy7"]) == 2
    assert booted == []


def test_profile_of_another_environment_is_refused(
    booted: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A native machine boots no profile of WSL2: the same card has another budget there."""
    monkeypatch.setattr(boots, "read_conditions", lambda lane: {"environment": "native", "lane": lane})
    assert cli.main(["boots", "rtx4090-memory"]) == 2
    said = capsys.readouterr()
    assert "rtx4090-memory is for wsl2, this machine is native" in said.err
    assert "note: rtx4090-memory needs the DFlash2 drafter" in said.out
    assert booted == []


def test_the_machine_is_written_down(
    booted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside each boot stands the state of the GPU before it and while it was up, unreadable as null."""
    monkeypatch.setattr(boots.review, "default_baselines", lambda: tmp_path / "none")
    cli.main(["boots", "any-gpu-dummy7", "--seqs", "16"])
    (written,) = Path("results/boots/rtx4090/any-gpu-dummy7").glob("*/patched-16-1/machine.json")
    kept = json.loads(written.read_text())
    for state in (kept["before"], kept["up"]):
        assert (state["gpu_used_bytes"], state["gpu_throttle"], state["gpu_pids"]) == (300 << 20, None, 0)
    assert (kept["before"]["load_average"], kept["left"]) == (0.0, None)


def test_memory_must_really_be_free(
    booted: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where processes cannot be read, memory that somebody holds still keeps a boot from starting."""
    held = replace(QUIET, pids=None, used_bytes=14_000 << 20)
    monkeypatch.setattr(boots, "read_state", lambda: held)
    assert cli.main(["boots", "any-gpu-dummy7", "--seqs", "16"]) == 2
    assert "10576 MiB free, 12288 MiB needed" in capsys.readouterr().err


def test_a_log_without_an_expected_phrase_is_no_boot(
    booted: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile says what its boots must print; one that does not is another boot, and the row is invalid."""
    profile = boots.load_profile("any-gpu-dummy7")
    expect = msgspec.structs.replace(profile.expect, lines=["drafting 9 tokens"])
    monkeypatch.setattr(boots, "load_profile", lambda _: msgspec.structs.replace(profile, expect=expect))
    assert cli.main(["boots", "any-gpu-dummy7", "--seqs", "16"]) == 2
    out = capsys.readouterr().out
    assert "invalid: boot: token-units-16/boot.log: its log lacks 'drafting 9 tokens'" in out


@pytest.mark.parametrize(
    ("flags", "late", "invalid"),
    [
        ([], 0, False),
        (["--enable-dbo"], 0, True),
        (["--ubatch-size=2"], 0, True),
        (["--enable-dbo"], 2, False),
    ],
)
def test_sharing_under_ubatching_is_invalid(
    booted: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    late: int,
    invalid: bool,
) -> None:
    """Builders on streams of their own that all adopted share what they must not."""
    profile = boots.load_profile("any-gpu-dummy7")
    serve = msgspec.structs.replace(profile.serve, flags=[*profile.serve.flags, *flags])
    monkeypatch.setattr(boots, "load_profile", lambda _: msgspec.structs.replace(profile, serve=serve))
    original = boots.facts_of
    monkeypatch.setattr(
        boots, "facts_of", lambda *given: msgspec.structs.replace(original(*given), late_lines=late)
    )
    cli.main(["boots", "any-gpu-dummy7", "--seqs", "16"])
    assert ("ubatching is on and every builder adopted" in capsys.readouterr().out) is invalid


STATE = {"count": 10, "degraded": True, "first": {"tokens": 9, "declared": 8}}


@pytest.mark.parametrize(
    ("states", "lines", "seen"),
    [
        ([STATE, STATE | {"count": 20}], 1, True),
        ([STATE, STATE], 1, False),
        ([STATE, STATE | {"count": 20}], 2, False),
        ([STATE, STATE | {"count": 20}], 0, False),
        ([STATE, STATE | {"count": 20, "first": {"tokens": 8, "declared": 8}}], 1, False),
        ([STATE | {"count": 0}, STATE], 1, False),
        ([None, STATE], 1, False),
        ([STATE], 1, False),
    ],
)
def test_breach(states: list[Any], lines: int, seen: bool) -> None:
    """A breach that is not counted on, is not described once, or changes its specimen is no proof."""
    assert boots.breached(states, lines) is seen


@pytest.mark.parametrize("name", ["sequence-units", "declared-8"])
def test_unseen_break_ends_in_three(booted: list[str], capsys: pytest.CaptureFixture[str], name: str) -> None:
    """A break that an engine boots through, or serves through without a breach, is a failed control."""
    assert cli.main(["boots", "any-gpu-dummy8", "--break", name]) == 3
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"verdict: control failed - break {name} was not seen (exit 3)"
    )
    assert booted == [f"break-{name}"]


DRAFTING = "(EngineCore pid=412) INFO 10-05 09:14:09 [d.py:1] drafting 7 tokens per step (the block\n"
CAPTURING = "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  45%|####      | 5/11\n"
BLOCKS = (
    "(EngineCore pid=412) ERROR 10-05 09:14:30 [kv_cache_coordinator.py:9] "
    "AssertionError: scheduler_block_size % hash_block_size\n"
)


def failing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, *traits: str) -> list[str]:
    """Engines that print this text and end so; gives the names of the boots."""
    names: list[str] = []

    def launch(profile: Any, seqs: int, root: Path, folder: Path, variables: Any, **more: Any) -> Launch:
        names.append(folder.name)
        lines = tmp_path / "failing.log"
        lines.write_text(text)
        command = (sys.executable, str(ENGINE / "stand_in.py"), "{port}", str(lines), *traits)
        return Launch("stand-in", command, dict(os.environ), folder, 20.0)

    monkeypatch.setattr(boots, "detect_lane", lambda: "rtx3090")
    monkeypatch.setattr(boots, "read_conditions", lambda lane: {"environment": "native", "lane": lane})
    monkeypatch.setattr(boots, "serve_launch", launch)
    return names


def dying() -> str:
    """A boot that never says that it started."""
    return "".join(line for line in PATCHED.splitlines(keepends=True) if "startup complete" not in line)


def test_published_failures(
    booted: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile that expects a failure boots as often as was published, and each boot fails as published."""
    cut = dying().split("Graph capturing finished")[0].rpartition("\n")[0]
    names = failing(monkeypatch, tmp_path, f"{cut}\n{DRAFTING}{CAPTURING}", "oom")
    assert cli.main(["boots", "rtx3090-depth11-262144"]) == 0
    assert names == [f"patched-1-{ordinal}" for ordinal in range(1, 9)]
    out = capsys.readouterr().out
    assert "patched-1-8  failed   out of memory  graph capture" in out
    assert out.splitlines()[-1] == (
        "verdict: pass - 8 of 8 boots of rtx3090-depth11-262144 failed, 8 published (exit 0)"
    )
    assert cli.main(["boots", "rtx3090-depth11-262144", "--attempts", "3"]) == 0
    assert len(names) == 8


@pytest.mark.parametrize(
    ("text", "traits", "code", "words"),
    [
        (dying() + DRAFTING, ("oom",), 1, "failed with out of memory at warm-up"),
        (BLOCKS, ("dies",), 2, "its log lacks 'drafting 7 tokens per step'"),
        (dying() + DRAFTING + "KeyError: 'x'\n", ("dies",), 1, "failed with KeyError: 'x' at"),
        (PATCHED + DRAFTING, (), 0, "it boots, published to fail with out of memory at graph capture"),
    ],
)
def test_other_ends_than_published(
    booted: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    traits: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    """Another stage, another boot, another cause, and no failure at all are each said."""
    failing(monkeypatch, tmp_path, text, *traits)
    assert cli.main(["boots", "rtx3090-depth11-262144", "--attempts", "1"]) == code
    out = capsys.readouterr().out
    assert words in out
    assert out.splitlines()[-1].endswith(f"8 published (exit {code})")


def test_block_divisibility(
    booted: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 98,304 the assert on block sizes is as published as running out of memory."""
    failing(monkeypatch, tmp_path, dying() + DRAFTING + BLOCKS, "dies")
    assert cli.main(["boots", "rtx3090-depth11-98304", "--attempts", "2"]) == 0
    assert "block divisibility" in capsys.readouterr().out
