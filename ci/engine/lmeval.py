"""lm-eval against a served arm: task files, its command line, and the answers that it leaves.

lm-eval is large, so it runs in an environment of its own (`locks/quality.txt`); only what it wrote is read.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.errors import GateError
from ci.results.files import read_limited, write_atomic

PYTHON_VARIABLE = "FORKPROOF_LMEVAL_PYTHON"
"""The interpreter that has lm-eval; `nox -s quality` sets it."""
MATHS = "forkproof_maths"
TEXT_PREFIX = "forkproof_text_"
MAX_ANSWER_TOKENS = 1024
LIMIT_BYTES = 256 << 20
TIMEOUT_S = 3 * 3600.0
NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
UNREADABLE = (KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError)
"""What a line of something else than an answer can raise."""


class LmEvalError(GateError):
    """lm-eval is not there, failed, or left something else than answers."""


@dataclass(frozen=True)
class Answered:
    """One item of a task."""

    item: str
    """Its row, and a hash of question and answer: the same row of other problems is another item."""
    right: bool
    """Not without text."""
    said: str
    """Empty if there is no text: the model said nothing, or the request failed."""


@dataclass(frozen=True)
class Answers:
    """What one arm answered."""

    maths: tuple[Answered, ...]
    log_likelihoods: Mapping[str, tuple[float, ...]]
    """By the name of a text file: of each of its parts."""


def write_tasks(folder: Path, texts: Mapping[str, Sequence[str]], maths: Path | None) -> list[str]:
    """Write the tasks for lm-eval; returns their names.

    Args:
        folder: for the task files and their data.
        texts: by the name of a split, its parts.
        maths: word problems, an object with `question` and `answer` a line; None takes lm-eval's source.
    """
    names = []
    for name, parts in texts.items():
        lines = "".join(json.dumps({"text": part}) + "\n" for part in parts)
        write_atomic(folder / f"{name}.jsonl", lines.encode())
        write_task(folder, text_task(name, folder / f"{name}.jsonl"))
        names.append(f"{TEXT_PREFIX}{name}")
    write_task(folder, maths_task(maths))
    return [*names, MATHS]


def write_task(folder: Path, task: dict[str, Any]) -> None:
    """A task file; JSON is YAML, too."""
    write_atomic(folder / f"{task['task']}.yaml", json.dumps(task, indent=1).encode() + b"\n")


def text_task(name: str, data: Path) -> dict[str, Any]:
    """The log likelihood of whole texts."""
    return {
        "task": f"{TEXT_PREFIX}{name}",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{text}}",
        # A perplexity of broken scores would overflow and end lm-eval.
        "metric_list": [{"metric": "bits_per_byte"}],
        "metadata": {"version": 1},
    }


def maths_task(data: Path | None) -> dict[str, Any]:
    """GSM8K's questions, its last number taken for the answer; greedy."""
    source: dict[str, Any] = {"dataset_path": "openai/gsm8k", "dataset_name": "main"}
    if data is not None:
        source = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(data)}}}
    return {
        "task": MATHS,
        **source,
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "Question: {{question}}\nAnswer:",
        "doc_to_target": "{{answer.split('####')[-1].strip()}}",
        "generation_kwargs": {
            "until": ["Question:"],
            "do_sample": False,
            "temperature": 0.0,
            "max_gen_toks": MAX_ANSWER_TOKENS,
        },
        "filter_list": [
            {
                "name": "last-number",
                "filter": [
                    {
                        "function": "regex",
                        "regex_pattern": "(-?[0-9][0-9,]*(?:\\.[0-9]+)?)",
                        "group_select": -1,
                    },
                    {"function": "take_first"},
                ],
            }
        ],
        "metric_list": [
            {
                "metric": "exact_match",
                "aggregation": "mean",
                "higher_is_better": True,
                "ignore_case": True,
                "regexes_to_ignore": [",", "\\.0*$"],
            }
        ],
        "metadata": {"version": 1},
    }


def command(
    python: str,
    base_url: str,
    model: str,
    tokenizer: str,
    folder: Path,
    tasks: Sequence[str],
    limit: int | None = None,
    chat: bool = False,
) -> list[str]:
    """lm-eval's command line.

    Args:
        python: the interpreter that has it.
        base_url: of the server.
        model: as the server calls it.
        tokenizer: folder of the model.
        folder: where the task files are and the answers go.
        tasks: their names; texts and word problems need different pages of the server.
        limit: items of each task; None for all.
        chat: through the chat page, with thinking off; texts cannot be scored there.
    """
    page, kind = (
        ("chat/completions", "local-chat-completions") if chat else ("completions", "local-completions")
    )
    settings = {
        "base_url": f"{base_url}/v1/{page}",
        "model": model,
        "tokenizer_backend": "huggingface",
        "tokenizer": tokenizer,
        "num_concurrent": 1,
        "max_retries": 1,
    }
    words = [python, "-m", "lm_eval", "run", "--model", kind]
    words += ["--model_args", ",".join(f"{name}={value}" for name, value in settings.items())]
    words += ["--tasks", ",".join(tasks), "--include_path", str(folder)]
    words += ["--limit", str(limit)] if limit else []
    words += ["--batch_size", "1", "--log_samples", "--output_path", str(folder / "answers")]
    if chat:
        words += ["--apply_chat_template", "--gen_kwargs", json.dumps(NO_THINKING)]
    return words


def run(words: Sequence[str], env: Mapping[str, str], log: Path, timeout_s: float = TIMEOUT_S) -> None:
    """Run lm-eval to its end, its output in `log`.

    Raises:
        LmEvalError: it could not be started, failed, or took too long.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as kept:
        try:
            done = subprocess.run(
                list(words),
                env=dict(env),
                stdout=kept,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LmEvalError(
                f"lm-eval did not run: {error}", remedy=f"nox -s quality, or look at {log}"
            ) from error
    if done.returncode:
        raise LmEvalError(f"lm-eval ended with status {done.returncode}", remedy=f"look at the end of {log}")


def read_answers(folder: Path, texts: Sequence[str]) -> Answers:
    """What lm-eval left in a folder.

    Raises:
        LmEvalError: a task has no answers, or several sets of them.
    """
    maths = tuple(answered(line) for line in samples(folder, MATHS))
    return Answers(maths, {name: tuple(map(scored, samples(folder, TEXT_PREFIX + name))) for name in texts})


def samples(folder: Path, task: str) -> list[dict[str, Any]]:
    """The items of one task, in their order, each once."""
    found = sorted(folder.glob(f"**/samples_{task}_*.jsonl"))
    if len(found) != 1:
        raise LmEvalError(
            f"{folder}: {len(found)} files with answers to {task}, not one", remedy=f"remove {folder}"
        )
    try:
        lines = [
            json.loads(line) for line in read_limited(found[0], LIMIT_BYTES).splitlines() if line.strip()
        ]
        lines.sort(key=lambda line: line["doc_id"])
        wrong = [(place, line["doc_id"]) for place, line in enumerate(lines) if line["doc_id"] != place]
    except UNREADABLE as error:
        raise LmEvalError(f"{found[0]}: {error!r}", remedy=f"remove {folder}") from error
    if wrong:
        place, item = wrong[0]
        raise LmEvalError(
            f"{found[0]}: doc_id {item} where {place} belongs: an item is left out or answered twice",
            remedy=f"remove {folder}",
        )
    return lines


def answered(line: dict[str, Any]) -> Answered:
    """One answered question."""
    try:
        asked = hashlib.sha256(json.dumps(line["doc"], sort_keys=True).encode()).hexdigest()[:12]
        item = f"{line['doc_id']}-{asked}"
        right, said = line["exact_match"], line["resps"][0][0]
        if right not in (0, 1):
            raise ValueError(f"exact_match is {right!r}, neither 0 nor 1")
        text = said if isinstance(said, str) and said.strip() else ""
        return Answered(item, right == 1 and bool(text), text)
    except UNREADABLE as error:
        raise LmEvalError(f"an answer cannot be read: {error!r}") from error


def scored(line: dict[str, Any]) -> float:
    """The log likelihood of one part of a text."""
    try:
        value: Any = line["filtered_resps"][0]
        return float(value[0] if isinstance(value, list) else value)
    except UNREADABLE as error:
        raise LmEvalError(f"a score cannot be read: {error!r}") from error
