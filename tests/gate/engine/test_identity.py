"""Which arm a boot really is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci.engine import orphans
from ci.engine.identity import (
    arm_seen,
    environments,
    identity_problems,
    parse_arm,
    parse_environ,
    resolve_arm,
)
from ci.engine.orphans import MARK, new_mark
from ci.errors import UsageError

ROOT, OTHER = Path("/cache/arms/patched"), Path("/cache/arms/mq3d")
FLAG = "VLLM_INT4_MQ_3D"
GOOD = {"PYTHONPATH": f"/checkout:{ROOT}:{OTHER}", FLAG: "0"}
ARM = parse_arm(f"patched+{FLAG}=0")


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two arms that have a vLLM, among folders that have none."""
    there = {str(ROOT / "vllm"), str(OTHER / "vllm")}
    monkeypatch.setattr(Path, "is_dir", lambda self: str(self) in there)


def test_resolve_arm() -> None:
    """A profile's words follow the arm that a run is about."""
    series = ["stock", "mq3d", "token-units"]
    assert resolve_arm("@subject+X=1", series).text == "token-units+X=1"
    assert resolve_arm("@previous", series).arm == "mq3d"
    assert resolve_arm("stock", series).arm == "stock"
    for text, names, words in (
        ("@previous+X=1", ["stock"], "no arm comes before 'stock'"),
        ("patched", series, "no arm 'patched'"),
    ):
        with pytest.raises(UsageError, match=words):
            resolve_arm(text, names)


def test_parse_arm() -> None:
    """An arm with its flags; a plain arm has none."""
    assert (ARM.arm, dict(ARM.flags), ARM.text) == ("patched", {FLAG: "0"}, f"patched+{FLAG}=0")
    assert dict(parse_arm("mq3d").flags) == {}
    assert dict(parse_arm("a+X=1+Y=b=c").flags) == {"X": "1", "Y": "b=c"}


NO_FLAGS = ["X", "=1", "X=1+X=2", "a b=1", "PYTHONPATH=/x", "VLLM_CACHE_ROOT=/x", f"{FLAG}_DEBUG=1"]


@pytest.mark.parametrize("text", ["", "+X=1", *(f"patched+{flag}" for flag in NO_FLAGS)])
def test_no_arm(text: str) -> None:
    """What names no arm or no flag is refused."""
    with pytest.raises(UsageError):
        parse_arm(text)


def test_the_arm_itself() -> None:
    """Every process imports vLLM from the arm and has the flag: nothing to say."""
    seen = arm_seen([GOOD, GOOD], ROOT, "abc", ARM.flags)
    assert (seen.root_first, seen.flags, seen.processes) == (True, {FLAG: "0"}, 2)
    assert identity_problems(seen, ARM, "abc") == []


@pytest.mark.parametrize(
    ("processes", "series", "words"),
    [
        ([], "abc", "no process"),
        (
            [GOOD, {**GOOD, "PYTHONPATH": f"{OTHER}:{ROOT}"}],
            "abc",
            "does not import vLLM from the arm patched",
        ),
        ([{FLAG: "0"}], "abc", "does not import vLLM from the arm"),
        ([GOOD], "abd", "holds series abd, not abc"),
        ([{**GOOD, FLAG: "1"}], "abc", f"{FLAG} is '1' in the engine's processes, not '0'"),
        ([GOOD, {**GOOD, FLAG: "1"}], "abc", f"""{FLAG} is "'0' and '1'" in"""),
        ([GOOD, {"PYTHONPATH": str(ROOT)}], "abc", f"""{FLAG} is "'0' and None" in"""),
        ([{"PYTHONPATH": str(ROOT)}], "abc", f"{FLAG} is None"),
    ],
)
def test_another_arm(processes: list[dict[str, str]], series: str, words: str) -> None:
    """No process, another folder, series or flag, or processes that differ: named."""
    problems = identity_problems(arm_seen(processes, ROOT, series, ARM.flags), ARM, "abc")
    assert any(words in problem for problem in problems), problems


@pytest.mark.parametrize(("values", "found"), [((None, None), 0), (("1", "1"), 1), (("1", None), 1)])
def test_a_flag_of_the_other_arm(values: tuple[str | None, ...], found: int) -> None:
    """In one process is enough: the reference would have what the subject is compared for."""
    processes = [GOOD if value is None else {**GOOD, "OTHER": value} for value in values]
    seen = arm_seen(processes, ROOT, "abc", [*ARM.flags, "OTHER"])
    problems = identity_problems(seen, ARM, "abc", ["OTHER"])
    assert [problem.endswith("; it is the other arm's") for problem in problems] == [True] * found


def test_environments_are_those_of_the_processes() -> None:
    """Read from the running processes themselves, workers included, by the mark that they carry."""
    mark = new_mark()
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()']); input()"
    environment = {**os.environ, MARK: mark, FLAG: "0", "PYTHONPATH": f"{ROOT}"}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        found = environments(mark)
        while len(found) < 2 and process.poll() is None:
            found = environments(mark)
        process.kill()
    assert [(one[FLAG], one["PYTHONPATH"]) for one in found] == [("0", str(ROOT))] * 2
    assert environments(new_mark()) == []


def test_a_process_that_is_another_by_now_is_not_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What no longer carries the mark would look like another flag."""
    for pid, environment in (("7", b"FORKPROOF_BOOT=mine\0A=1\0"), ("8", b"A=2\0")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "environ").write_bytes(environment)
    monkeypatch.setattr(orphans, "PROC", tmp_path)
    monkeypatch.setattr(orphans, "marked", lambda mark: [(7, mark), (8, mark)])
    assert environments("mine") == [{"FORKPROOF_BOOT": "mine", "A": "1"}]


def test_parse_environ() -> None:
    """Values may hold an equals sign; what has no name is no variable."""
    assert parse_environ(b"A=1\0B=x=y\0\0") == {"A": "1", "B": "x=y"}
