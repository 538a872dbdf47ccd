"""The command over a served model that can add: verdicts, keeping, and answers that cannot be used."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci import cli
from ci.commands import quality, quality_inputs, throughput
from ci.commands.quality_inputs import parts_of, read_maths, read_texts
from ci.commands.throughput_session import LOCK_FILE
from ci.engine import lmeval
from ci.engine.profile import load_profile, timed_names
from ci.errors import UsageError
from ci.results.lock import HeldError, held
from tests.gate.commands.played_model import Model, play, stand_in


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """The machine that plays."""
    return play(tmp_path, monkeypatch)


Command = Callable[..., tuple[int, str]]
KEPT = Path("results/quality/rtx4090/rtx4090-steps/token-units-vs-patched")
ANOTHER = "is of another profile, arm, model, machine, tool parser, text, word problem or number of them"


TALK = {"completions": 60, "right": 60, "loops": 0, "truncated": 0}


@pytest.fixture
def command(model: Model, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run it; gives exit code and output."""

    def run(*words: str) -> tuple[int, str]:
        code = cli.main(["quality", "rtx4090-steps", *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def test_equal_arms(model: Model, command: Command) -> None:
    """Arms that answer alike pass, with the smallest loss that forty items would have shown."""
    code, out = command("--items", "40")
    assert code == 0
    assert (
        "verdict: pass - rtx4090-steps: 0 items lost, 0 won of 40, p 1.000; would have seen a loss of" in out
    )
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "perplexity-all ratio 1.0 1" in lines
    assert "gsm8k accuracy_b 1.0 1" in lines
    assert "gsm8k mean_tokens_b 19.225 tokens" in lines  # letters of its forty sentences
    assert "tools-mission right_b 60 decisions" in lines
    assert model.booted == ["token-units", "patched"]


def test_worse_answers(model: Model, command: Command) -> None:
    """An arm that gets every fourth sum wrong is regressed, by ten lost items."""
    model.plans["patched"] = {"wrong": 4}
    code, out = command("--items", "40")
    assert code == 1
    assert "verdict: regressed - rtx4090-steps: 10 items lost, 0 won of 40, p 0.001" in out
    assert "out of bounds: gsm8k p_loss" in out


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"logprob": -0.51}, "out of bounds: perplexity-en ratio, perplexity-all ratio"),
        ({"fault": "loop"}, "out of bounds: tools-judgment more_loops, tools-mission more_loops"),
        ({"fault": "cut"}, "out of bounds: tools-judgment more_truncated"),
    ],
)
def test_other_regressions(model: Model, command: Command, plan: dict[str, Any], words: str) -> None:
    """A perplexity over the bound, texts that loop, and completions that are cut."""
    model.plans["patched"] = plan
    code, out = command("--items", "40")
    assert code == 1
    assert words in out


def test_an_arm_that_answered_is_kept(model: Model, command: Command) -> None:
    """Run again, nothing is asked twice; after a change of the texts the answers are another session's."""
    code, out = command("--items", "40")
    assert code == 0
    assert "2 of 2 arms left to ask, about 15 min" in out  # 180 s, 40 sums of 3.5 s, 120 turns of 1 s
    assert "1 of 2 arms left to ask, about 0 min" in out
    code, out = command("--items", "40")
    assert (code, "left to ask" in out) == (0, False)
    assert len(model.booted) == 2
    code, out = command("--items", "39")
    assert (code, ANOTHER in out) == (2, True)
    Path("texts/en.txt").write_text("Other words.\n")
    code, out = command("--items", "40")
    assert (code, ANOTHER in out) == (2, True)


@pytest.mark.parametrize("variable", [quality_inputs.MATHS_VARIABLE, "FORKPROOF_MODEL", "FORKPROOF_DRAFTER"])
def test_other_problems_or_model(
    model: Model, command: Command, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Answers to other word problems, or of another model, are not compared with those that are there."""
    command("--items", "40")
    (KEPT / "B.json").unlink()
    Path("other.jsonl").write_text(Path("maths.jsonl").read_text().replace("What is 1 +", "What is 2 +"))
    monkeypatch.setenv(variable, "other.jsonl")
    code, out = command("--items", "40")
    assert (code, ANOTHER in out, len(model.booted)) == (2, True, 2)


def test_lm_eval_failed(model: Model, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without answers an arm is not compared, the other one not booted; next time it is asked again."""

    def fails(*_: Any) -> None:
        raise lmeval.LmEvalError("lm-eval ended with status 1", remedy="look at its log")

    with monkeypatch.context() as broken:
        broken.setattr(lmeval, "run", fails)
        code, out = command("--items", "40")
    assert code == 2
    assert f"token-units is asked again next time; what it said is in {KEPT.resolve()}/A.failed.json" in out
    assert "verdict: invalid - rtx4090-steps: a request failed: lm-eval ended with status 1" in out
    assert model.booted == ["token-units"]
    assert command("--items", "40")[0] == 0
    assert model.booted == ["token-units", "token-units", "patched"]


def test_too_few_items(model: Model, command: Command) -> None:
    """Four lost items of four are no pass: no loss of any size could have been called one."""
    model.plans["patched"] = {"wrong": 1}
    code, out = command("--items", "4")
    assert code == 2
    assert (
        "verdict: inconclusive - rtx4090-steps: 4 items lost, 0 won of 4, p 0.062; would have seen no" in out
    )


@pytest.mark.parametrize("logprob", [-1e6, float("nan"), float("-inf"), -0.0])
def test_broken_scores(model: Model, command: Command, logprob: float) -> None:
    """Scores that give no perplexity, as of tokens all certain, are a regression, and make A no reference."""
    model.plans["patched"] = {"logprob": logprob}
    for _ in range(2):  # as asked, and as kept
        code, out = command("--items", "40")
        assert (code, "out of bounds: perplexity-en ratio, perplexity-all ratio" in out) == (1, True)
    assert len(model.booted) == 2
    (KEPT / "A.json").unlink()
    model.plans["token-units"] = {"logprob": logprob}
    code, out = command("--items", "40")
    assert code == 2
    assert "verdict: invalid - rtx4090-steps: the reference gives text en no perplexity" in out
    assert model.booted == ["token-units", "patched", "token-units"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"arm": "patched"}, "holds the answers of patched, not of token-units"),
        ({"problems": ["it was cut"]}, "it was cut"),
        ({"maths": {}}, "the set of word problems has 0 answers, not 40"),
        ({"maths": {"0-0": True}}, "the set of word problems has 1 answers, not 40"),
        ({"silent": 2}, "2 of 40 answers of the reference to word problems have no text"),
        ({"texts": {"en": [{"log_likelihood": 0.0, "tokens": 1}] * 3}}, "the reference gives text en no"),
        ({"texts": {}}, "text en has 0 answers, not 3"),
        ({"texts": {"en": [{"log_likelihood": -1.0, "tokens": 0}] * 3}}, "text en has 0 answers, not 3"),
        ({"texts": {"en": [{"log_likelihood": None, "tokens": 1}] * 3}}, "the reference gives text en no"),
        ({"talks": {}}, "conversation judgment has 0 answers, not 60"),
        ({"talks": {"mission": TALK | {"loops": -5}}}, "Expected `int` >= 0 - at `$.talks[...].loops`"),
        ({"key": "k"}, "is of another profile"),
        ({"maths": 1}, "Expected `object`, got `int` - at `$.maths`"),
    ],
)
def test_unusable_answers(model: Model, command: Command, changed: dict[str, Any], words: str) -> None:
    """Answers that are damaged, incomplete or another arm's are refused by file, with what to do about it."""
    command("--items", "40")
    path = KEPT.resolve() / "A.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    code, out = command("--items", "40")
    assert (code, len(model.booted)) == (2, 2)
    assert f"error: {path}: {words}" in out
    assert f"remedy: {'--fresh' if 'key' in changed else f'remove {path}'}" in out


def test_as_many_as_there_are(model: Model, command: Command) -> None:
    """Where the file has fewer word problems than are asked for, all of them are enough."""
    code, out = command("--items", "200")
    assert (code, "0 items lost, 0 won of 40" in out, len(model.booted)) == (0, True, 2)


def with_samples(
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    arms: str = "AB",
) -> None:
    """Have the samples of word problems of these arms changed as soon as lm-eval has left them."""

    def run(asked: Any, env: Any, log: Path) -> None:
        stand_in(asked, env, log)
        for path in log.parent.glob(f"**/samples_{lmeval.MATHS}_*.jsonl"):
            if log.parent.name[-1] in arms:
                lines = change([json.loads(line) for line in path.read_text().splitlines()])
                path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    monkeypatch.setattr(lmeval, "run", run)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[-10:], "the set of word problems has 10 answers, not 40"),
        (lambda lines: [*lines, lines[0] | {"exact_match": 0.0}], "doc_id 39 where 40 belongs"),
        (lambda lines: [one | {"resps": [[""]]} for one in lines], "40 of 40 answers of the reference"),
        (lambda lines: [*lines[:-1], lines[-1] | {"resps": [[None]]}], "1 of 40 answers of the reference"),
        (lambda _: [], "the set of word problems has 0 answers, not 40"),
    ],
)
def test_unanswered_items(
    model: Model,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    words: str,
) -> None:
    """A reference that did not answer each word problem, once and with a text, is not compared."""
    with_samples(monkeypatch, change)
    code, out = command("--items", "40")
    assert (code, len(model.booted)) == (2, 1)
    assert f"{KEPT.resolve()}/A.failed.json" in out
    assert words in next(line for line in out.splitlines() if line.startswith("verdict: invalid"))


@pytest.mark.parametrize(("silent", "code"), [(1, 0), (8, 1), (40, 1)])
def test_answers_without_text(
    model: Model, command: Command, monkeypatch: pytest.MonkeyPatch, silent: int, code: int
) -> None:
    """An answer of the subject without text is a wrong one, as asked and as kept."""
    with_samples(
        monkeypatch,
        lambda lines: [one | {"resps": [[""]]} for one in lines[:silent]] + lines[silent:],
        arms="B",
    )
    for _ in range(2):
        got, out = command("--items", "40")
        assert (got, f"{silent} items lost, 0 won of 40" in out) == (code, True)
        assert f"; {silent} of 40 answers of B have no text" in out
    assert len(model.booted) == 2
    assert ("mean_tokens_b      not read" in out) is (silent == 40)


def test_other_tokens(model: Model, command: Command) -> None:
    """Arms that take a text apart differently have no perplexities to compare."""
    command("--items", "40")
    path = KEPT.resolve() / "B.json"
    kept = json.loads(path.read_text())
    kept["texts"]["en"][0]["tokens"] = 10**9
    path.write_text(json.dumps(kept))
    code, out = command("--items", "40")
    assert (code, f"{path.parent}: A.json and B.json count different tokens of text en" in out) == (2, True)


def test_other_items(model: Model, command: Command) -> None:
    """Where lm-eval's own source changed between the boots, both arms have to be asked again."""
    command("--items", "40")
    path = KEPT.resolve() / "B.json"
    path.write_text(path.read_text().replace('"0-', '"0-other'))
    code, out = command("--items", "40")
    assert (code, len(model.booted)) == (2, 2)
    assert f"{path.parent}: A.json and B.json answer different word problems" in out
    assert "remedy: --fresh puts aside what was answered and asks both arms again" in out
    assert command("--items", "40", "--fresh")[0] == 0
    assert sorted(one.name for one in KEPT.glob("*.json")) == [
        *("A.aside.json", "A.json", "B.aside.json", "B.json")
    ]


@pytest.mark.parametrize(
    "variable",
    [lmeval.PYTHON_VARIABLE, quality_inputs.TEXTS_VARIABLE, quality.PARSER_VARIABLE, "FORKPROOF_MODEL"],
)
def test_not_set_up(model: Model, command: Command, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """What lm-eval needs is asked for before anything boots."""
    monkeypatch.delenv(variable)
    code, out = command()
    assert code == 2
    assert f"{variable} is not set" in out
    assert model.booted == []


def test_arm_of_no_name(model: Model, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """An arm that the series does not have is told before any is built."""
    monkeypatch.setattr(throughput, "arms_by_name", lambda *_: pytest.fail("an arm was built"))
    code, out = command("--arms", "stock", "nope")
    assert code == 2
    assert "the series has no arm 'nope'" in out


@pytest.mark.parametrize(
    ("words", "variable"),
    [
        (["any-gpu-verify-slowed"], "FORKPROOF_SLOWDOWN"),
        (["any-gpu-verify", "--arms", "patched", "patched+FORKPROOF_BREAK=x"], "FORKPROOF_BREAK"),
    ],
)
def test_what_a_server_would_not_read(
    model: Model,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    variable: str,
) -> None:
    """An arm that only the engine in one process would make another is refused before any is built."""
    monkeypatch.setattr(quality, "load_profile", load_profile)
    monkeypatch.setattr(throughput, "arms_by_name", lambda *_: pytest.fail("an arm was built"))
    assert cli.main(["quality", *words]) == 2
    err = capsys.readouterr().err
    assert f"error: {words[0]}: {variable} is read by the engine in one process only" in err
    assert "remedy: compare other arms: this command always serves" in err


@pytest.mark.parametrize("name", ["any-gpu", "rtx3090-memory"])
def test_profiles_that_can_be_asked_are_named(
    model: Model, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """A profile that does not exist, or has no [measure] table: what quality can use is listed, no more."""
    assert cli.main(["quality", name]) == 2
    listed = capsys.readouterr().err.partition("one of: ")[2].partition("\n")[0].split(", ")
    assert listed == [one for one in timed_names() if one != "any-gpu-verify-slowed"]
    assert model.booted == []


def test_a_folder_has_one_run(model: Model, command: Command) -> None:
    """A second one, on another GPU, is refused while the first runs, and puts nothing aside."""
    command("--items", "40")
    before = sorted(KEPT.iterdir())
    with held(KEPT / LOCK_FILE, "quality rtx4090-steps"):
        for words in ([], ["--fresh"]):
            code, out = command("--items", "40", *words)
            assert code == 2
            assert f"{KEPT.resolve()}: held by pid {os.getpid()}: quality rtx4090-steps\n" in out
            assert "another folder: --session DIR, or FORKPROOF_OUT=DIR where nox runs it" in out
    assert (sorted(KEPT.iterdir()), len(model.booted)) == (before, 2)


def test_no_other_run_gets_the_folder_meanwhile(
    model: Model, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is held until both arms have answered."""
    found = []

    def asks(*_: Any) -> None:
        with pytest.raises(HeldError, match="quality rtx4090-steps"), held(KEPT / LOCK_FILE, "another"):
            pass
        found.append(1)
        raise lmeval.LmEvalError("it was asked")

    monkeypatch.setattr(lmeval, "run", asks)
    command("--items", "40")
    assert found == [1]


def test_other_arms_have_another_folder(model: Model, command: Command) -> None:
    """The answers of two pairs of arms of one profile lie side by side."""
    command("--items", "40")
    assert command("--items", "40", "--arms", "patched", "patched+VLLM_X=1")[0] == 0
    assert sorted(path.name for path in KEPT.parent.iterdir()) == [
        "patched-vs-patched_VLLM_X=1",
        "token-units-vs-patched",
    ]


@pytest.mark.parametrize("items", ["0", "-1"])
def test_no_items(model: Model, command: Command, items: str) -> None:
    """No item is not all of them."""
    code, out = command("--items", items)
    assert (code, f"--items {items}: at least 1" in out, model.booted) == (2, True, [])


def test_more_items_than_there_are(model: Model, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """lm-eval's own source has 1319 word problems: more are refused before a boot."""
    monkeypatch.delenv(quality_inputs.MATHS_VARIABLE)
    monkeypatch.setattr(quality.Quality, "scores", lambda *_, **__: pytest.fail("it was asked"))
    code, out = command("--items", "1320")
    assert (code, "--items 1320: GSM8K has 1319 word problems" in out, model.booted) == (2, True, [])


def test_texts(tmp_path: Path) -> None:
    """Files are cut at line ends; an empty folder or file is refused."""
    assert parts_of("a\n" * 3) == ["a\na\na\n"]
    long = "word " * 700 + "\n"
    assert [len(part) for part in parts_of(long * 5)] == [7002, 7002, 3501]
    with pytest.raises(UsageError, match="holds no text"):
        read_texts(str(tmp_path))
    (tmp_path / "en.txt").write_text("\n")
    with pytest.raises(UsageError, match="or an empty one"):
        read_texts(str(tmp_path))
    (tmp_path / "en.txt").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="a file is not UTF-8"):
        read_texts(str(tmp_path))


@pytest.mark.parametrize("name", ["all", "en_gb", "a,b", "x[1]", "a b", "ü", ".txt"])
def test_names_of_texts(model: Model, command: Command, name: str) -> None:
    """A name that lm-eval would take apart, or that stands for all texts, is refused before a boot."""
    Path("texts", f"{name}.txt").write_text("Words.\n")
    code, out = command("--items", "40")
    assert (code, model.booted) == (2, [])
    assert f"{name}.txt' cannot name a text" in out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        (b"\n", "holds no word problem"),
        (b'{"question": "?", "answer": "1"}\nquestion,answer\n', "line 2: JSON is malformed"),
        (b'{"question": "What is 1 + 3?"}\n', "line 1: Object missing required field `answer`"),
        (b'{"question": "\xff", "answer": "1"}\n', "line 1: "),
    ],
)
def test_word_problems(tmp_path: Path, content: bytes | None, words: str) -> None:
    """A file of something else than word problems is refused, by its line."""
    path = tmp_path / "m.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=f"{quality_inputs.MATHS_VARIABLE}: .*{words}"):
        read_maths(path)


def test_word_problems_are_read_first(
    model: Model, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of word problems is looked at before anything boots."""
    monkeypatch.setenv(quality_inputs.MATHS_VARIABLE, "nowhere.jsonl")
    code, out = command()
    assert (code, f"{quality_inputs.MATHS_VARIABLE}: nowhere.jsonl: no such file" in out, model.booted) == (
        2,
        True,
        [],
    )
