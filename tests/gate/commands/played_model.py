"""A machine that plays a model that can add: stand-ins for GPU, arms, engine and lm-eval."""

from __future__ import annotations

import itertools
import json
import os
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci.commands import quality, quality_inputs, throughput, throughput_session
from ci.engine import lmeval, server, timed_boot
from ci.engine.boot import Launch
from ci.engine.profile import Profile, load_profile
from tests.gate.commands.played_machine import ARMS, ENGINE, QUIET, made_arms, manifest_of

CONDITIONS = {"gpu": "NVIDIA GeForce RTX 4090", "driver": "610"}


class Model:
    """What the arms answer."""

    def __init__(self) -> None:
        self.plans: dict[str, dict[str, Any]] = {name: {} for name in ARMS}
        self.booted: list[str] = []


def stand_in(words: Sequence[str], _env: Any, _log: Path, _timeout_s: float = 0.0) -> None:
    """lm-eval as far as its files go: it asks the server and writes samples."""
    options = dict(itertools.pairwise(words[4:]))
    settings = dict(pair.split("=", 1) for pair in options["--model_args"].split(","))
    folder = Path(options["--include_path"])
    for task in options["--tasks"].split(","):
        made = json.loads((folder / f"{task}.yaml").read_text())
        lines = Path(made["dataset_kwargs"]["data_files"]["test"]).read_text().splitlines()
        docs = [json.loads(line) for line in lines][: int(options.get("--limit", "100000"))]
        answers = [answer(settings["base_url"], made, doc, number) for number, doc in enumerate(docs)]
        target = folder / "answers" / "m" / f"samples_{task}_2026.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(json.dumps(one) + "\n" for one in reversed(answers)))


def answer(url: str, task: dict[str, Any], doc: dict[str, Any], number: int) -> dict[str, Any]:
    """One sample line."""
    if task["output_type"] == "loglikelihood_rolling":
        (found,) = posted(url, {"prompt": doc["text"], "echo": True})["choices"]
        total = sum(one for one in found["logprobs"]["token_logprobs"] if one is not None)
        return {"doc_id": number, "resps": [[str(total)]], "filtered_resps": [str(total)]}
    assert url.endswith("/v1/chat/completions")  # thinking can be left out of a chat only
    message = {"role": "user", "content": f"Question: {doc['question']}\nAnswer:"}
    said = posted(url, {"messages": [message]})["choices"][0]["message"]["content"]
    wanted = doc["answer"].split("####")[-1].strip()
    right = said.rstrip(".").split()[-1] == wanted
    return {"doc_id": number, "doc": doc, "resps": [[said]], "exact_match": float(right)}


def posted(url: str, asked: dict[str, Any]) -> Any:
    """What the server answers."""
    body = json.dumps(asked).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - our own host
    with urllib.request.urlopen(request) as got:  # noqa: S310 - our own host
        return json.loads(got.read())


def played_profile() -> Profile:
    """What is served."""
    steps = load_profile("rtx4090-steps")
    assert steps.measure is not None
    return replace(steps, measure=replace(steps.measure, chat=False))  # the timed prompts' own business


def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """Put the stand-ins in their places; a small text and forty sums."""
    one = Model()

    def launch(profile: Any, seqs: int, root: Path, folder: Path, variables: Any, **more: Any) -> Launch:
        one.booted.append(root.name)
        plan = tmp_path / f"{root.name}.json"
        tools = profile.serve.flags == ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
        log = str(ENGINE / "logs" / "v0.27-patched.log")
        plan.write_text(json.dumps({"log": log, "tools": tools, **one.plans[root.name]}))
        env = {**os.environ, "PYTHONPATH": str(root), "VLLM_CACHE_ROOT": str(folder / "c"), **profile.env}
        command = (sys.executable, str(ENGINE / "answering.py"), "{port}", str(plan))
        return Launch(profile.name, command, env, folder, 20.0, more.get("descriptions"))

    arms = made_arms(tmp_path)
    profile = played_profile()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "en.txt").write_text("The crew met the tower.\n" * 900)
    sums = [{"question": f"What is {n} + {3 * n}?", "answer": f"so #### {4 * n}"} for n in range(1, 41)]
    (tmp_path / "maths.jsonl").write_text("".join(json.dumps(one) + "\n" for one in sums))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORKPROOF_OUT", str(tmp_path / "results"))
    for name, value in {
        "FORKPROOF_CACHE": str(tmp_path / "cache"),
        "FORKPROOF_MODEL": "m",
        "FORKPROOF_DRAFTER": "d",
        lmeval.PYTHON_VARIABLE: "python-of-lm-eval",
        quality_inputs.TEXTS_VARIABLE: str(tmp_path / "texts"),
        quality_inputs.MATHS_VARIABLE: str(tmp_path / "maths.jsonl"),
        quality.PARSER_VARIABLE: "hermes",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(quality, "load_profile", lambda _name: profile)
    monkeypatch.setattr(throughput, "arms_by_name", lambda *_: {arm.name: arm for arm in arms})
    monkeypatch.setattr(throughput, "detect_lane", lambda: "rtx4090")
    monkeypatch.setattr(throughput_session, "read_conditions", lambda lane, **_: {"lane": lane, **CONDITIONS})
    monkeypatch.setattr(throughput_session, "abandoned", list)  # other tests have some of their own
    monkeypatch.setattr(throughput_session, "read_gpus", list)
    monkeypatch.setattr(throughput_session, "load_average", lambda: 0.3)
    monkeypatch.setattr(throughput_session, "read_manifest", manifest_of)
    for module in (throughput_session, quality):
        monkeypatch.setattr(module, "read_state", lambda *_: QUIET)
    monkeypatch.setattr(timed_boot, "serve_launch", launch)
    monkeypatch.setattr(lmeval, "run", stand_in)
    monkeypatch.setattr(server, "POLL_S", 0.02)
    return one
