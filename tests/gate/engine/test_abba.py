"""Sessions on disk: order, whole blocks, going on after an interruption, and when they end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from ci.engine import abba
from ci.engine.abba import (
    ASIDE,
    BOOTS,
    HEAD_FILE,
    LIMIT_BYTES,
    LINEAGE,
    About,
    Opened,
    SessionError,
    SessionOpenError,
    begin,
    finished_boots,
    open_session,
    put_aside,
    read_head,
    resumed,
    run_blocks,
)
from ci.gate.throughput import records_of
from ci.results.files import FileUnreadableError
from ci.results.throughput import BootMeasure, SessionHead
from tests.gate.gate.boots import boot, head

PAIRS = 4
RUNNER = """
import sys, time
from pathlib import Path
from ci.engine.abba import run_blocks
from tests.gate.gate.boots import boot
def one(place, letter):
    time.sleep(0.03)
    print(place, flush=True)
    return boot(place, 26.0 + place / 100)
run_blocks(Path(sys.argv[1]), int(sys.argv[2]), one, lambda boots: None)
"""


class Booter:
    """Boots that are counted."""

    def __init__(self, **faults: object) -> None:
        self.places: list[int] = []
        self.faults = faults

    def __call__(self, place: int, letter: str) -> BootMeasure:
        """The boot at a place."""
        self.places.append(place)
        made = boot(place, 26.0 + place / 100)
        assert made.letter == letter
        if self.faults.get("interrupt") == len(self.places):
            raise KeyboardInterrupt
        if self.faults.get("problem") == place:
            return replace(made, problems=("a request failed (cut)",))
        return made


def never(_boots: object) -> None:
    """No early end."""


def test_order_and_files(tmp_path: Path) -> None:
    """Boots run in the order A B B A, and each is a file when the next begins."""
    seen: list[int] = []

    def one(place: int, _letter: str) -> BootMeasure:
        seen.append(len(list((tmp_path / BOOTS).glob("*.json"))) if place else 0)
        return boot(place, 26.0)

    progress = run_blocks(tmp_path, PAIRS, one, never)
    assert "".join(one.letter for one in progress.boots) == "ABBAABBA"
    assert seen == list(range(8))
    assert progress.stopped == "all 4 pairs were run"
    assert [path.name for path in sorted((tmp_path / BOOTS).iterdir())][:3] == [
        "000-A.json",
        "001-B.json",
        "002-B.json",
    ]


def test_stops_after_a_block(tmp_path: Path) -> None:
    """What makes further boots needless is asked after whole blocks only."""
    asked: list[int] = []

    def stop(boots: object) -> str | None:
        asked.append(len(list(boots)))  # type: ignore[call-overload]
        return "red is certain" if asked[-1] == 4 else None

    progress = run_blocks(tmp_path, PAIRS, Booter(), stop)
    assert (len(progress.boots), progress.stopped, asked) == (4, "red is certain", [4])


def test_blocks_now(tmp_path: Path) -> None:
    """A number of blocks for now leaves the session open; it then goes on with the next block."""
    first = run_blocks(tmp_path, PAIRS, Booter(), never, blocks_now=1)
    assert (len(first.boots), first.stopped) == (4, None)
    booter = Booter()
    second = run_blocks(tmp_path, PAIRS, booter, never, blocks_now=1)
    assert booter.places == [4, 5, 6, 7]
    assert second.stopped == "all 4 pairs were run"


def test_interrupted_block_runs_again(tmp_path: Path) -> None:
    """Whole blocks stay; boots of the block that was interrupted are put aside, not used and not deleted."""
    with pytest.raises(KeyboardInterrupt):
        run_blocks(tmp_path, PAIRS, Booter(interrupt=7), never)
    booter = Booter()
    progress = run_blocks(tmp_path, PAIRS, booter, never)
    assert booter.places == [4, 5, 6, 7]
    assert len(progress.boots) == 8
    assert sorted(path.name for path in (tmp_path / ASIDE).iterdir()) == ["004-A.json", "005-B.json"]
    (tmp_path / BOOTS / "007-A.json").unlink()
    run_blocks(tmp_path, PAIRS, Booter(), never)
    assert {path.name for path in (tmp_path / ASIDE).iterdir()} >= {
        "004-A.json",
        "004-A-1.json",
        "006-B.json",
    }


@pytest.mark.parametrize(("interrupt", "stays"), [(1, False), (3, False), (7, True)])
def test_compiled_code_goes_with_the_boots_that_wrote_it(tmp_path: Path, interrupt: int, stays: bool) -> None:
    """Where no boot is left, the code is compiled anew by one that counts; nothing is deleted."""
    code = tmp_path / LINEAGE / "x" / "code"
    code.parent.mkdir(parents=True)
    code.touch()
    with pytest.raises(KeyboardInterrupt):
        run_blocks(tmp_path, PAIRS, Booter(interrupt=interrupt), never)
    assert not code.exists()  # from before the first boot
    code.parent.mkdir(parents=True)
    code.touch()
    run_blocks(tmp_path, PAIRS, Booter(), never)
    assert code.exists() is stays
    aside = [path.relative_to(tmp_path / ASIDE).parts[0] for path in tmp_path.glob(f"{ASIDE}/**/code")]
    assert sorted(aside) == [LINEAGE] if stays else [LINEAGE, f"{LINEAGE}-1"]


def test_parts_of_files_are_removed(tmp_path: Path) -> None:
    """What a killed run was writing is no file of a session."""
    parts = [tmp_path / ".census.json.a1.tmp", tmp_path / BOOTS / ".004-A.json.b2.tmp"]
    run_blocks(tmp_path, PAIRS, Booter(), never, blocks_now=1)
    for part in parts:
        part.touch()
    run_blocks(tmp_path, PAIRS, Booter(), never)
    assert [part for part in parts if part.exists()] == []


@pytest.mark.parametrize(("gone", "kept"), [(1, 0), (6, 4)])
def test_boots_behind_a_gap(tmp_path: Path, gone: int, kept: int) -> None:
    """Where a boot's file was removed, what is not of the whole blocks before it is put aside, all of it."""
    run_blocks(tmp_path, PAIRS, Booter(), never)
    boots = tmp_path / BOOTS
    before = {path.name: path.read_bytes() for path in boots.iterdir()}
    gone_name = sorted(before)[gone]
    (boots / gone_name).unlink()
    assert len(finished_boots(tmp_path)) == kept
    assert len(list(boots.iterdir())) == 7  # who only reads moves nothing
    booter = Booter()
    progress = run_blocks(tmp_path, PAIRS, booter, never, blocks_now=1)
    assert booter.places == list(range(kept, kept + 4))
    assert len(progress.boots) == len(list(boots.iterdir())) == kept + 4
    moved = {path.name: path.read_bytes() for path in (tmp_path / ASIDE).iterdir()}
    assert moved == {name: before[name] for name in sorted(before)[kept:] if name != gone_name}


def test_bad_boot_ends_the_session(tmp_path: Path) -> None:
    """A boot that cannot be compared ends it, and is not tried again until it fits."""
    progress = run_blocks(tmp_path, PAIRS, Booter(problem=2), never)
    assert progress.stopped == "boot 002-B cannot be compared"
    booter = Booter()
    again = run_blocks(tmp_path, PAIRS, booter, never)
    assert (booter.places, again.stopped) == ([], "boot 002-B cannot be compared")
    assert len(again.boots) == 3


def test_ten_kills_give_the_records_of_an_uninterrupted_run(tmp_path: Path) -> None:
    """Killed ten times at random moments and gone on with, the session's records are the same."""
    whole = run_blocks(tmp_path / "whole", 8, lambda place, _: boot(place, 26.0 + place / 100), never)
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", RUNNER, str(folder), "8"]
    draw = random.Random(20260901)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    kills = 0
    while kills < 10:
        # Counted from its first boot on, so that no kill only hits the interpreter's start.
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            started = process.stdout.readline()
            time.sleep(draw.uniform(0.0, 0.1))
            assert started, "the session was complete before it was killed ten times"
            process.send_signal(signal.SIGKILL)
        kills += 1
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert done.stdout
    boots = finished_boots(folder)
    assert records_of("steps", head(), boots) == records_of("steps", head(), whole.boots)


def test_damaged_boot(tmp_path: Path) -> None:
    """A boot's file that is cut, or of another place, is named; it is not taken for an unfinished block."""
    run_blocks(tmp_path, PAIRS, Booter(), never)
    path = tmp_path / BOOTS / "003-A.json"
    kept = path.read_bytes()
    path.write_bytes(kept[:-40])
    with pytest.raises(SessionError, match=r"003-A\.json"):
        finished_boots(tmp_path)
    path.write_bytes(msgspec.json.encode(boot(0, 26.0)))
    with pytest.raises(SessionError, match="holds boot 0 A"):
        finished_boots(tmp_path)
    path.write_bytes(b" " * (LIMIT_BYTES + 1))
    with pytest.raises(SessionError, match="the limit is 8") as caught:
        finished_boots(tmp_path)
    assert caught.value.remedy == f"move {path} away: its block and those behind it run again"
    path.unlink()
    path.mkdir()
    with pytest.raises(SessionError, match="cannot be read") as caught:
        finished_boots(tmp_path)
    assert caught.value.remedy == f"move {path} away: its block and those behind it run again"


def test_boot_of_another_session(tmp_path: Path) -> None:
    """A boot's file that was brought from another session is named, and is not counted."""
    begin(tmp_path, head("run-1"))
    run_blocks(tmp_path, 2, lambda place, _: boot(place, 26.0, session="run-1"), never)
    assert len(finished_boots(tmp_path)) == 4
    (tmp_path / BOOTS / "003-A.json").write_bytes(msgspec.json.encode(boot(3, 26.0, session="run-0")))
    with pytest.raises(SessionError, match=r"003-A\.json: is of session run-0, not run-1"):
        finished_boots(tmp_path)
    (tmp_path / HEAD_FILE).unlink()  # nobody knows then whose boots these are
    with pytest.raises(SessionError, match=r"000-A\.json: is of session run-1"):
        finished_boots(tmp_path)


def test_head(tmp_path: Path) -> None:
    """A session goes on under its own name."""
    first = begin(tmp_path / "s", head("run-1"))
    assert read_head(tmp_path / "s") == first
    assert resumed(tmp_path / "s", head("run-2")).run == "run-1"
    assert put_aside(tmp_path / "s") == tmp_path / "s.run-1"
    assert read_head(tmp_path / "s") is None
    assert put_aside(tmp_path / "s") is None
    with pytest.raises(SessionError, match="no session to go on with"):
        resumed(tmp_path / "s", head())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"conditions": {"gpu": "NVIDIA GeForce RTX 4090", "driver": "611.0"}},
            "driver was '610.43.02', now '611.0'",
        ),
        ({"conditions": {"gpu": "NVIDIA GeForce RTX 4090"}}, "driver was '610.43.02', now None"),
        ({"conditions": {**head().conditions, "torch": "2.13.0"}}, "torch was None, now '2.13.0'"),
        ({"profile": "rtx4090-other"}, "profile was 'rtx4090-steps', now 'rtx4090-other'"),
        ({"points": ("prose-1",)}, "points was ('prose-6747',), now ('prose-1',)"),
        ({"judge": "prefill_ms"}, "judge was 'step_ms', now 'prefill_ms'"),
        ({"arms": ("mq3d", "token-units")}, "arms was"),
        ({"pairs": 6}, "pairs was 8, now 6"),
        ({"models": ("/models/other",)}, "models was (), now ('/models/other',)"),
        ({"key": "other"}, "the profile or an arm has changed"),
    ],
)
def test_other_conditions(tmp_path: Path, changed: dict[str, object], words: str) -> None:
    """Under other conditions a session does not go on; what differs is said."""
    begin(tmp_path, head())
    with pytest.raises(SessionError, match="began under other conditions") as caught:
        resumed(tmp_path, replace(head(), **changed))
    assert words in str(caught.value)


def damaged_heads() -> list[tuple[bytes, str]]:
    """What may be in a head's file, and what is said of it."""
    heads = [
        (replace(head(), schema=2), "schema 2, this reads 1"),
        *((replace(head(), run=run), "is no name of a session") for run in ("a\0b", "../a", "")),
    ]
    return [(b"{", "truncated"), *((msgspec.json.encode(one), words) for one, words in heads)]


@pytest.mark.parametrize(("content", "words"), damaged_heads())
def test_damaged_head(tmp_path: Path, content: bytes, words: str) -> None:
    """A head that cannot be read, or of another version, is named, with the way to put it aside."""
    folder = tmp_path / "1"
    folder.mkdir()
    (folder / HEAD_FILE).write_bytes(content)
    with pytest.raises(SessionError, match=words) as caught:
        opened(tmp_path, "run-1")
    assert f"{folder / HEAD_FILE}" in str(caught.value)
    assert "--fresh" in str(caught.value)


@pytest.mark.parametrize("folder", ["1", "2"])
@pytest.mark.parametrize("content", [None, *(content for content, _ in damaged_heads())])
def test_anything_is_put_aside(tmp_path: Path, folder: str, content: bytes | None) -> None:
    """Without a head, or with a damaged one, boots that lie there are no part of the session that begins."""
    if folder == "2":
        begin(tmp_path / "1", head("run-1"))
    for _ in range(2):
        run_blocks(tmp_path / folder, 2, Booter(), never)
        (tmp_path / folder / HEAD_FILE).unlink(missing_ok=True)
        if content is not None:
            (tmp_path / folder / HEAD_FILE).write_bytes(content)
        opened(tmp_path, "run-2", fresh=True)
        assert not (tmp_path / folder / BOOTS).exists()
    assert len(list(tmp_path.glob(f"{folder}.unnamed*/{BOOTS}/003-A.json"))) == 2


@pytest.mark.parametrize("fresh", [True, False])
def test_a_link_to_nowhere_is_put_aside(tmp_path: Path, fresh: bool) -> None:
    """To itself, or to a folder that is gone: a session cannot be written through it."""
    (tmp_path / "1").symlink_to("1")
    (tmp_path / "2").symlink_to("gone")
    at = opened(tmp_path, "run-1", fresh=fresh)
    assert (at.folder, at.aside[0]) == (tmp_path / "1", tmp_path / "1.unnamed")
    at = opened(tmp_path, "run-2", yes, yes)
    assert at.folder == tmp_path / "2"
    assert (tmp_path / "1.unnamed").is_symlink()
    assert (tmp_path / "2.unnamed").is_symlink()
    assert not (tmp_path / "2").is_symlink()


def test_begun_in_a_folder_without_a_head(tmp_path: Path) -> None:
    """Also where nobody asked for a fresh one."""
    run_blocks(tmp_path / "1", 2, Booter(), never)
    assert finished_boots(opened(tmp_path, "run-1").folder) == []
    run_blocks(tmp_path / "2", 2, Booter(), never)
    assert finished_boots(opened(tmp_path, "run-2", yes, yes).folder) == []


def yes(_head: SessionHead, _boots: object) -> bool:
    """A session that has ended, or is held."""
    return True


def no(_head: SessionHead, _boots: object) -> bool:
    """Neither."""
    return False


def opened(
    root: Path, run: str, ended: About = no, held: About = no, spoilt: About = no, **how: bool
) -> Opened:
    """The session to run."""
    resume, fresh = how.get("resume", False), how.get("fresh", False)
    return open_session(
        root, head(run), lambda at, its, _earlier: ended(at, its), held, spoilt, resume=resume, fresh=fresh
    )


def test_open_session(tmp_path: Path) -> None:
    """It begins, goes on when told to, is confirmed when it is held, and makes room when it is done."""
    with pytest.raises(SessionError, match="no session to go on with"):
        opened(tmp_path, "run-0", resume=True)
    assert opened(tmp_path, "run-1") == Opened(tmp_path / "1", head("run-1"), None)
    boots = run_blocks(tmp_path / "1", 2, Booter(), never).boots
    with pytest.raises(SessionOpenError, match="session run-1 has not ended"):
        opened(tmp_path, "run-2")
    assert opened(tmp_path, "run-2", resume=True).head.run == "run-1"
    confirming = opened(tmp_path, "run-2", yes, yes)
    assert confirming == Opened(tmp_path / "2", head("run-2"), (head("run-1"), boots))
    with pytest.raises(SessionOpenError, match="session run-2 has not ended"):
        opened(tmp_path, "run-3")
    assert opened(tmp_path, "run-3", yes, yes, resume=True) == confirming
    again = opened(tmp_path, "run-2b", yes, yes, yes)  # boots that cannot be compared take nothing back
    assert again == Opened(tmp_path / "2", head("run-2b"), confirming.earlier, (tmp_path / "2.run-2",))
    aside = (tmp_path / "1.run-1", tmp_path / "2.run-2b")
    assert opened(tmp_path, "run-3", yes, yes) == Opened(tmp_path / "1", head("run-3"), None, aside)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "1.run-1", "2.run-2", "2.run-2b"]
    fresh = opened(tmp_path, "run-4", fresh=True)
    assert (fresh.head.run, fresh.aside) == ("run-4", (tmp_path / "1.run-3",))
    assert opened(tmp_path, "run-5", yes, no).folder == tmp_path / "1"


def test_a_full_disk_when_a_session_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has made room for it is not lost: it is said where it lies, if anything was moved."""

    def full(path: Path, _data: bytes) -> None:
        raise FileUnreadableError(f"{path}: cannot be written", remedy="check the free space")

    begin(tmp_path / "1", head("run-1"))
    monkeypatch.setattr(abba, "write_atomic", full)
    with pytest.raises(SessionError) as caught:
        opened(tmp_path, "run-2", fresh=True)
    assert caught.value.cause == f"what was there now lies in {tmp_path / '1.run-1'}"
    assert caught.value.remedy == "check the free space"
    with pytest.raises(FileUnreadableError):
        opened(tmp_path, "run-3")


def test_confirmation_under_other_conditions(tmp_path: Path) -> None:
    """A session of another driver would confirm nothing."""
    begin(tmp_path / "1", replace(head("run-1"), conditions={"driver": "other"}))
    for ended in (yes, no):  # under these it cannot be told whether it has
        with pytest.raises(SessionError, match="driver was 'other'"):
            opened(tmp_path, "run-2", ended, yes)


def test_a_confirming_session_under_other_conditions(tmp_path: Path) -> None:
    """It is the one that has not ended, so its conditions are compared, not those of the first."""
    begin(tmp_path / "1", head("run-1"))
    run_blocks(tmp_path / "1", 2, Booter(), never)
    begin(tmp_path / "2", replace(head("run-2"), conditions={"driver": "other"}))
    with pytest.raises(SessionError, match=r"/2: .*driver was 'other'"):
        opened(tmp_path, "run-3")


def test_first_session_gone(tmp_path: Path) -> None:
    """Without the session that it confirms, a second one is of no use."""
    begin(tmp_path / "2", head("run-2"))
    with pytest.raises(SessionError, match="the session to confirm is gone"):
        opened(tmp_path, "run-3", resume=True)
    begin(tmp_path / "1", head("run-1"))
    for resume in (True, False):
        with pytest.raises(SessionError, match="the boots of the session to confirm are gone"):
            opened(tmp_path, "run-3", yes, yes, resume=resume)
    assert opened(tmp_path, "run-3", fresh=True).folder == tmp_path / "1"
