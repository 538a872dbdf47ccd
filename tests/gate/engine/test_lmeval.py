"""lm-eval: the tasks that are written for it, its command line, and reading what it leaves."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from ci.engine.lmeval import (
    MATHS,
    Answered,
    LmEvalError,
    answered,
    command,
    maths_task,
    read_answers,
    run,
    write_tasks,
)

MATHS_LINE = {
    "doc_id": 0,
    "doc": {"question": "What is 1 + 3?", "answer": "sum #### 4"},
    "resps": [[" 1 and 3 make 4."]],
    "filtered_resps": ["4"],
    "filter": "last-number",
    "exact_match": 1.0,
}
TEXT_LINE = {
    "doc_id": 0,
    "resps": [["-16.1"]],
    "filtered_resps": ["-16.1"],
    "bits_per_byte": [-16.1, 25],
}
"""Lines as lm-eval 0.4.13 writes them, shortened."""


def leave(folder: Path, task: str, *lines: dict[str, Any]) -> None:
    """A file of answers where lm-eval puts it."""
    path = folder / "answers" / "m" / f"samples_{task}_2026-11-30T05-03-10.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_tasks(tmp_path: Path) -> None:
    """Each split is a task over its own file; the word problems come from a file or from their source."""
    names = write_tasks(tmp_path, {"en": ["a", "b\n"], "da": ["c"]}, tmp_path / "m.jsonl")
    assert names == ["forkproof_text_en", "forkproof_text_da", MATHS]
    task = json.loads((tmp_path / "forkproof_text_en.yaml").read_text())
    assert task["output_type"] == "loglikelihood_rolling"
    assert task["metric_list"] == [{"metric": "bits_per_byte"}]  # unlike a perplexity it cannot overflow
    data = Path(task["dataset_kwargs"]["data_files"]["test"])
    assert [json.loads(line) for line in data.read_text().splitlines()] == [{"text": "a"}, {"text": "b\n"}]
    assert maths_task(None)["dataset_path"] == "openai/gsm8k"
    assert maths_task(None)["generation_kwargs"]["temperature"] == 0.0
    assert json.loads((tmp_path / f"{MATHS}.yaml").read_text())["dataset_path"] == "json"


def test_command(tmp_path: Path) -> None:
    """Texts go to the completions page without limit, chats to theirs with thinking off."""
    plain = command("py", "http://h:1", "m", "/model", tmp_path, ["a", "b"])
    assert plain[:6] == ["py", "-m", "lm_eval", "run", "--model", "local-completions"]
    assert "base_url=http://h:1/v1/completions" in plain[7]
    assert "tokenizer=/model" in plain[7]
    assert plain[plain.index("--tasks") + 1] == "a,b"
    assert "--limit" not in plain
    chat = command("py", "http://h:1", "m", "/model", tmp_path, [MATHS], 200, chat=True)
    assert chat[5] == "local-chat-completions"
    assert chat[chat.index("--limit") + 1] == "200"
    assert json.loads(chat[chat.index("--gen_kwargs") + 1]) == {
        "chat_template_kwargs": {"enable_thinking": False}
    }
    assert "--log_samples" in chat


def test_answers(tmp_path: Path) -> None:
    """Items in their order, right or wrong, with what was said; scores of texts, as text or as number."""
    leave(tmp_path, MATHS, {**MATHS_LINE, "doc_id": 1, "exact_match": 0.0}, MATHS_LINE)
    leave(tmp_path, "forkproof_text_en", TEXT_LINE, {**TEXT_LINE, "doc_id": 1, "filtered_resps": [-3.5]})
    found = read_answers(tmp_path, ["en"])
    assert found.maths == (
        Answered("0-62db0a9c136a", True, " 1 and 3 make 4."),
        Answered("1-62db0a9c136a", False, " 1 and 3 make 4."),
    )
    assert found.log_likelihoods == {"en": (-16.1, -3.5)}


def test_items_are_named_by_their_problem() -> None:
    """Another question, or another answer to it, in the same row is another item."""
    docs = [{"question": "1 + 3?", "answer": "4"}, {"question": "1 + 4?", "answer": "4"}]
    docs += [{**docs[0], "answer": "5"}, dict(reversed(docs[0].items()))]
    names = [answered({**MATHS_LINE, "doc": doc}).item for doc in docs]
    assert len(set(names)) == 3
    assert names[3] == names[0]


def test_order(tmp_path: Path) -> None:
    """Items are in the order of their numbers, not of how these are written."""
    leave(tmp_path, MATHS, *({**MATHS_LINE, "doc_id": number} for number in reversed(range(11))))
    items = [one.item.split("-")[0] for one in read_answers(tmp_path, []).maths]
    assert items == [str(number) for number in range(11)]


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([0, 1, 1], "doc_id 1 where 2 belongs"),
        ([0, 2], "doc_id 2 where 1 belongs"),
        ([1], "doc_id 1 where 0 belongs"),
        ([float("inf")], "doc_id inf where 0 belongs"),
        ([0, "1"], "TypeError"),
    ],
)
@pytest.mark.parametrize("task", [MATHS, "forkproof_text_en"])
def test_each_item_once(tmp_path: Path, task: str, numbers: list[Any], words: str) -> None:
    """Items that are left out, or answered twice, are no answers to a task."""
    leave(tmp_path, MATHS, MATHS_LINE)
    leave(tmp_path, "forkproof_text_en", TEXT_LINE)
    leave(tmp_path, task, *({**MATHS_LINE, "doc_id": number} for number in numbers))
    with pytest.raises(LmEvalError, match=words):
        read_answers(tmp_path, ["en"])


@pytest.mark.parametrize("said", [None, "", " \n", 5])
@pytest.mark.parametrize("right", [0.0, 1.0])
def test_silent(tmp_path: Path, said: object, right: float) -> None:
    """An item without text is never right, and can be told from others."""
    leave(tmp_path, MATHS, MATHS_LINE, {**MATHS_LINE, "doc_id": 1, "resps": [[said]], "exact_match": right})
    assert [(one.right, one.said) for one in read_answers(tmp_path, []).maths] == [
        *((True, " 1 and 3 make 4."), (False, ""))
    ]


@pytest.mark.parametrize(
    ("task", "line", "words"),
    [
        *((MATHS, MATHS_LINE | {"exact_match": got}, "neither 0 nor 1") for got in (0.5, math.nan, "yes")),
        (MATHS, MATHS_LINE | {"exact_match": 10**400}, "neither 0 nor 1"),
        ("forkproof_text_en", TEXT_LINE | {"filtered_resps": [10**400]}, "OverflowError"),
        (MATHS, {"doc_id": 0}, "an answer cannot be read"),
        (MATHS, {"exact_match": 1.0}, "doc_id"),
        ("forkproof_text_en", {"doc_id": 0, "filtered_resps": []}, "a score cannot be read"),
    ],
)
def test_unreadable(tmp_path: Path, task: str, line: dict[str, Any], words: str) -> None:
    """A line without its fields is an error, not an item left out."""
    leave(tmp_path, MATHS, MATHS_LINE)
    leave(tmp_path, "forkproof_text_en", TEXT_LINE)
    leave(tmp_path, task, line)
    with pytest.raises(LmEvalError, match=words):
        read_answers(tmp_path, ["en"])


def test_too_deep(tmp_path: Path) -> None:
    """A line that nests too deeply to be read is an error with its file, too."""
    leave(tmp_path, MATHS, MATHS_LINE)
    (path,) = tmp_path.glob("**/samples_*.jsonl")
    path.write_text("[" * 200_000 + "\n")
    with pytest.raises(LmEvalError, match=f"{path}: RecursionError"):
        read_answers(tmp_path, [])


def test_no_answers(tmp_path: Path) -> None:
    """No file, or answers of two runs, is no set of answers."""
    with pytest.raises(LmEvalError, match="0 files with answers"):
        read_answers(tmp_path, [])
    leave(tmp_path, MATHS, MATHS_LINE)
    leave(tmp_path / "again", MATHS, MATHS_LINE)
    with pytest.raises(LmEvalError, match="2 files with answers"):
        read_answers(tmp_path, [])


def test_run(tmp_path: Path) -> None:
    """Its output is kept; a failure says where to look."""
    log = tmp_path / "lm-eval.log"
    run([sys.executable, "-c", "print('evaluated')"], {}, log)
    assert log.read_text() == "evaluated\n"
    with pytest.raises(LmEvalError, match="status 3") as caught:
        run([sys.executable, "-c", "raise SystemExit(3)"], {}, log)
    assert str(log) in (caught.value.remedy or "")
    with pytest.raises(LmEvalError, match="did not run"):
        run(["/no/such/python"], {}, log)
