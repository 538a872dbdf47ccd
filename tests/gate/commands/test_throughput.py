"""The command over a server that plays recorded timings: every verdict, going on, and confirming."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci import cli
from ci.commands import throughput, throughput_session
from ci.commands.throughput import check_served, chosen
from ci.commands.throughput_session import LOCK_FILE, measure_of
from ci.engine.inprocess import BREAK_VARIABLE
from ci.engine.profile import Point, load_profile, profile_names
from ci.errors import UsageError
from ci.results.lock import held
from tests.gate.commands.played_machine import PROFILE, Machine, play


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine that plays."""
    return play(tmp_path, monkeypatch)


Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(machine: Machine, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run it in one process; gives exit code and output."""

    def run(*words: str) -> tuple[int, str]:
        code = cli.main(["throughput", "any-gpu-verify", "--in-process", *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


@pytest.mark.parametrize(
    ("slower", "code", "words"),
    [
        (1.0, 0, "verdict: pass - any-gpu-verify on rtx4090: every prompt is decided; +0."),
        (0.9, 0, "verdict: improved - any-gpu-verify on rtx4090: every prompt is decided; +11."),
        (
            1.03,
            2,
            "inconclusive - any-gpu-verify on rtx4090: red is certain: isolated_step_ms of prose-400; await",
        ),
    ],
)
def test_verdicts_after_one_block(
    machine: Machine, command: Command, slower: float, code: int, words: str
) -> None:
    """Equal, faster and slower are told apart after two pairs, as the lane's A/A sessions allow."""
    machine.slower["patched"] = slower
    got, out = command()
    assert words in out
    assert got == code
    assert [name.partition(" ")[0] for name in machine.booted] == [
        *("census-A", "census-B", "000-A", "001-B", "002-B", "003-A")
    ]
    assert "would have seen a loss of" in out
    assert "\ntexts: the same in all boots\n" in out
    assert "2 untimed and at most 16 timed boots to run" in out


def test_open_to_the_end(machine: Machine, command: Command) -> None:
    """An arm that loses exactly the margin stays open: inconclusive after all pairs."""
    machine.slower["patched"] = 1.0055
    code, out = command("--pairs", "4")
    assert code == 2
    assert "verdict: inconclusive" in out
    assert "all 4 pairs were run" in out
    assert len(machine.booted) == 2 + 8
    left = re.findall(r"boot (\d+) took \d+ s; at most (\d+) are left", out)
    assert left == [(str(number), str(8 - number)) for number in range(1, 9)]


def test_confirmation(machine: Machine, command: Command) -> None:
    """Slower is held; the command run again is the fresh session, and then it is regressed, or it is not."""
    machine.slower["patched"] = 1.03
    code, out = command()
    assert code == 2
    assert "awaiting confirmation by a fresh session" in out.splitlines()[-1]
    code, out = command()
    assert code == 1
    assert "verdict: regressed" in out
    assert "confirmed: first -2.89% after 2 of at most 8 pairs" in out
    code, out = command("--resume")
    assert code == 1  # judged again
    assert "timed boots to run" not in out
    assert len(machine.booted) == 12


def test_not_confirmed(machine: Machine, command: Command) -> None:
    """A second session that sees nothing takes the accusation back."""
    machine.slower["patched"] = 1.03
    assert command()[0] == 2
    machine.slower["patched"] = 1.0
    code, out = command()
    assert code == 0
    assert "not confirmed" in out


def test_invalid(machine: Machine, command: Command) -> None:
    """A boot that cannot be compared ends the session as invalid; no number of it is judged."""
    machine.plan = {"fault": "no-cache"}
    code, out = command()
    assert code == 2
    assert "verdict: invalid - any-gpu-verify on rtx4090: boot 0 (token-units)" in out
    assert "unequal hits of the prefix cache" in out
    assert len(machine.booted) == 3


def test_resume(machine: Machine, command: Command) -> None:
    """Interrupted in a block, the session goes on with that whole block, and only when told to."""
    machine.slower["patched"] = 1.0055
    machine.interrupt_at = "006-B"
    assert command()[0] == 130
    machine.interrupt_at = None
    code, out = command()
    assert code == 2
    assert "has not ended" in out
    assert "--resume to go on with it" in out
    machine.booted.clear()
    code, out = command("--resume", "--blocks", "1")
    assert [name.partition(" ")[0] for name in machine.booted] == ["004-A", "005-B", "006-B", "007-A"]
    assert "8 boots so far; go on with --resume" in out
    assert code == 2


def test_other_conditions(machine: Machine, command: Command) -> None:
    """After a change of driver a session does not go on; a fresh one begins, and the old one is kept."""
    machine.slower["patched"] = 1.0055
    assert command("--blocks", "1")[0] == 2
    machine.conditions["driver"] = "581"
    code, out = command("--resume")
    assert code == 2
    assert "driver was '580', now '581'" in out
    code, out = command()
    assert "began under other conditions: driver was '580', now '581'" in out
    machine.slower["patched"] = 0.9
    code, out = command("--fresh", "--blocks", "1")
    assert code == 2  # without A/A sessions of that driver two pairs decide nothing
    (folder,) = Path("results/throughput/rtx4090/any-gpu-verify").iterdir()
    assert f"put aside: {folder.resolve()}/1.2" in out
    assert len([path for path in folder.iterdir() if path.name.startswith("1")]) == 2


def test_an_ended_session_makes_room(machine: Machine, command: Command) -> None:
    """Whatever its head says, and it is said where it now lies."""
    assert command("--session", "s")[0] == 0
    path = Path("s/1/session.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "points": []}))
    code, out = command("--session", "s")
    assert code == 0
    assert f"put aside: {Path('s').resolve()}/1.2" in out


def test_no_path_was_proven(machine: Machine, command: Command) -> None:
    """The instrument of an arm shows nothing: no boot is timed, whether or not the profile names a kernel."""
    machine.census = ""
    code, out = command()
    assert code == 2
    assert "8 query tokens take no dispatch line" in out
    assert len(machine.booted) == 1


TWO = replace(measure_of(PROFILE), points=[Point("prose", 400), Point("prose", 800)])


def test_chosen() -> None:
    """A prompt that is named twice is timed once, in the order of the words; a kernel belongs to its arms."""
    profile = replace(PROFILE, measure=replace(TWO, paths=("2D", "3D")))
    some = measure_of(chosen(profile, None, ["prose-800", "prose-400", "prose-800"]))
    assert [point.name for point in some.points] == ["prose-800", "prose-400"]
    assert some.paths == measure_of(chosen(profile, TWO.arms, None)).paths == ("2D", "3D")
    other = ("patched", "patched+X=1")
    assert measure_of(chosen(profile, other, None)) == replace(TWO, arms=other, paths=None)


def test_other_model(machine: Machine, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of the caller's model begins with the model named, and goes on with no other."""
    machine.slower["patched"] = 1.0055
    served = replace(PROFILE, model=load_profile("rtx4090-steps").model)
    monkeypatch.setattr(throughput, "load_profile", lambda _name: served)
    for name, path in (("FORKPROOF_MODEL", ""), ("FORKPROOF_DRAFTER", "/models/draft")):
        monkeypatch.setenv(name, path)
    code, out = command("--blocks", "1")
    assert (code, machine.booted) == (2, [])
    assert "FORKPROOF_MODEL is not set" in out
    monkeypatch.setenv("FORKPROOF_MODEL", "/models/a")
    assert "4 boots so far" in command("--blocks", "1")[1]
    monkeypatch.setenv("FORKPROOF_MODEL", "/models/other")
    words = "models was ('/models/a', '/models/draft'), now ('/models/other', '/models/draft')"
    assert words in command("--resume", "--blocks", "1")[1]
    monkeypatch.setenv("FORKPROOF_MODEL", "/models/a")
    assert "8 boots so far" in command("--resume", "--blocks", "1")[1]


def test_generated_model(machine: Machine, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the dummy is written says nothing: its session goes on in a folder that was moved."""
    machine.slower["patched"] = 1.0055
    assert "4 boots so far" in command("--session", "here", "--blocks", "1")[1]
    Path("here").rename("there")
    assert "8 boots so far" in command("--session", "there", "--resume", "--blocks", "1")[1]


def test_boots_know_their_session(machine: Machine, command: Command) -> None:
    """A boot's file names the session, so that it is counted in no other."""
    command("--session", "s", "--blocks", "1")
    run = json.loads(Path("s/1/session.json").read_text())["run"]
    assert {json.loads(path.read_text())["session"] for path in Path("s/1/boots").iterdir()} == {run}


def test_flags_are_an_arm(machine: Machine, command: Command) -> None:
    """One arm under a flag is compared with itself without; the flag is read back from its processes."""
    code, out = command("--arms", "patched", "patched+FORKPROOF_SLOWDOWN=0.03")
    assert code == 0  # the player is not slowed
    assert "A = patched, B = patched+FORKPROOF_SLOWDOWN=0.03" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--resume"], "there is no session to go on with"),
        (["--resume", "--fresh"], "leave one of them out"),
        (["--blocks", "0"], "--blocks 0"),
        (["--pairs", "5"], "--pairs 5: an even number from 4"),
        (["--pairs", "2"], "--pairs 2: an even number from 4"),
        (["--point", "prose-1"], "has no prompt prose-1"),
        (["--arms", "patched", "mq3d"], "no arm 'mq3d'"),
        (["--arms", "patched", "patched+X"], "not a flag"),
        (["--arm", "stock"], "no arm comes before 'stock'"),
    ],
)
def test_refused(machine: Machine, command: Command, words: list[str], said: str) -> None:
    """What cannot be meant is refused before anything boots."""
    code, out = command(*words)
    assert code == 2
    assert said in out
    assert machine.booted == []
    assert machine.builds == int(words == ["--resume"])  # only a session has to know its arms
    assert not list(Path().glob("results/**/session.json"))


def test_a_folder_has_one_session(machine: Machine, command: Command) -> None:
    """A second one, on another GPU, is refused while the first runs, and takes nothing; then it may."""
    command("--session", "mine", "--blocks", "1")
    before = {path: path.stat().st_mtime_ns for path in Path("mine/1").rglob("*")}
    machine.booted.clear()
    with held(Path("mine") / LOCK_FILE, "throughput any-gpu-verify"):
        for words in (["--resume"], ["--fresh"]):
            code, out = command("--session", "mine", *words)
            assert code == 2
            assert f"mine: held by pid {os.getpid()}: throughput any-gpu-verify\n" in out
            assert "remedy: wait until that has ended, or choose another folder: --session DIR" in out
    assert machine.booted == []
    assert {path: path.stat().st_mtime_ns for path in Path("mine/1").rglob("*")} == before
    assert "put aside: " in command("--session", "mine", "--fresh", "--blocks", "1")[1]


@pytest.mark.parametrize(
    ("name", "words", "variable"),
    [
        ("any-gpu-verify-slowed", [], "FORKPROOF_SLOWDOWN"),
        ("any-gpu-verify", ["--arms", "patched", "patched+FORKPROOF_BREAK=declared-8"], "FORKPROOF_BREAK"),
    ],
)
def test_what_a_server_would_not_read(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    words: list[str],
    variable: str,
) -> None:
    """An arm that only the engine in one process would make another is refused behind vLLM's server."""
    monkeypatch.setattr(throughput, "load_profile", load_profile)
    assert cli.main(["throughput", name, *words]) == 2
    err = capsys.readouterr().err
    assert f"error: {name}: {variable} is read by the engine in one process only" in err
    assert "remedy: --in-process" in err
    assert (machine.builds, machine.booted) == (0, [])


def test_what_a_profile_sets_and_a_server_would_not_read() -> None:
    """A profile's own environment is the arms' as well."""
    with pytest.raises(UsageError, match=f"any-gpu-verify: {BREAK_VARIABLE} is read by the engine in one"):
        check_served(replace(PROFILE, env={**PROFILE.env, BREAK_VARIABLE: "declared-8"}))


@pytest.mark.parametrize("session", ["loop", "loop/mine"])
def test_a_folder_that_cannot_be_one(machine: Machine, command: Command, session: str) -> None:
    """A link to itself is no folder, which the error says, and nothing boots."""
    Path("loop").symlink_to("loop")
    code, out = command("--session", session)
    assert code == 2
    assert out.startswith(f"error: {Path.cwd() / session}")
    assert ": cannot be used: Too many levels of symbolic links\n" in out
    assert "Traceback" not in out
    assert machine.booted == []


@pytest.mark.parametrize("name", ["any-gpu", "rtx3090-memory"])
def test_profiles_that_time_something_are_named(
    machine: Machine, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """A profile that does not exist, or that has nothing to time: those that have are listed, no others."""
    assert cli.main(["throughput", name]) == 2
    said = capsys.readouterr()
    listed = (said.out + said.err).partition("one of: ")[2].partition("\n")[0].split(", ")
    assert listed == [one for one in profile_names() if load_profile(one).measure is not None]
    assert machine.booted == []


def test_left_behind(machine: Machine, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines of a killed run are ended, and it is said, before anything boots."""
    ended: list[str] = []
    monkeypatch.setattr(
        throughput_session, "abandoned", lambda: [(123, "a mark")] if not machine.booted else []
    )
    monkeypatch.setattr(throughput_session, "end_marked", ended.append)
    _, out = command("--blocks", "1")
    assert ended == ["a mark"]
    assert out.index("ending process 123, left behind by a killed run") < out.index("booting ")


def test_served(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """Streamed by a server, a session of one block is valid and shows its numbers."""
    code = cli.main(["throughput", "any-gpu-verify", "--blocks", "1"])
    out = capsys.readouterr().out
    assert code == 2  # no A/A session of served boots: two pairs decide nothing
    assert "4 boots so far" in out
    assert "invalid" not in out
