"""Answers like a served model that can add: `answering.py PORT PLAN`, PLAN being a JSON file.

Pages: /health, /metrics, /tokenize, /v1/models, /v1/completions (token ids or text, with echo and log
probabilities) and /v1/chat/completions with tools. The plan says: `wrong` (one question in so many gets a
wrong answer), `logprob` (of each token), `fault` (`loop`, `cut`, in tool conversations), `tools` (whether it
was told to take them), `log` (what it prints). A token is a byte.
"""

from __future__ import annotations

import http.server
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

PLAN: dict[str, Any] = {}
QUESTION = re.compile(r"Question: What is (\d+) \+ (\d+)\?")


class Handler(http.server.BaseHTTPRequestHandler):
    """The pages."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Health, models, metrics."""
        pages = {
            "/v1/models": json.dumps({"object": "list", "data": [{"id": "m"}]}),
            "/metrics": 'vllm:cache_config_info{block_size="16",num_gpu_blocks="10812"} 1.0\n',
        }
        self.answer(pages.get(self.path, ""))

    def do_POST(self) -> None:
        """Token ids, completions, chats."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            self.answer(json.dumps({"tokens": list(asked["prompt"].encode())}))
        elif self.path == "/v1/chat/completions" and "tools" in asked and not PLAN.get("tools", True):
            words = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
            self.answer(json.dumps({"error": {"message": words, "code": 400}}), 400)
        elif self.path == "/v1/chat/completions":
            self.answer(json.dumps(chat(asked)))
        else:
            self.answer(json.dumps(completions(asked)))

    def answer(self, body: str, status: int = 200) -> None:
        """Send one answer."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
        """Stay quiet."""


def completions(asked: dict[str, Any]) -> dict[str, Any]:
    """One choice per prompt."""
    prompts = asked["prompt"]
    if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int)):
        prompts = [prompts]
    return {"choices": [choice(index, one, asked) for index, one in enumerate(prompts)]}


def choice(index: int, prompt: str | list[int], asked: dict[str, Any]) -> dict[str, Any]:
    """The sum, or the scores of the prompt's own tokens."""
    ids = list(prompt.encode()) if isinstance(prompt, str) else prompt
    text = bytes(one for one in ids if one < 256).decode(errors="replace")
    if asked.get("echo"):
        likely: list[Any] = [None, *[PLAN.get("logprob", -0.5)] * len(ids)]
        words = [*(f"<{one}>" for one in ids), "."]
        tops = [None if one is None else {word: one} for word, one in zip(words, likely, strict=True)]
        return {
            "index": index,
            "text": text + ".",
            "finish_reason": "length",
            "logprobs": {"tokens": words, "token_logprobs": likely, "top_logprobs": tops},
        }
    found = QUESTION.findall(text)
    said = "no question"
    if found:
        first, second = map(int, found[-1])
        wrong = bool(PLAN.get("wrong")) and first % int(PLAN["wrong"]) == 0
        said = f" {first} and {second} make {first + second + wrong}."
    return {"index": index, "text": said, "finish_reason": "stop", "logprobs": None}


def chat(asked: dict[str, Any]) -> dict[str, Any]:
    """The sum; with tools a call of the one that the last message names, or what a fault makes of it."""
    message = asked["messages"][-1]["content"]
    said: dict[str, Any] = {"role": "assistant", "content": None}
    if "tools" not in asked:
        said["content"] = choice(0, message, asked)["text"]
        return {"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}
    words = message.split()
    names = [tool["function"]["name"] for tool in asked.get("tools", [])]
    name = next((one for one in names if one in words), names[0] if names else "none")
    number = next((int(word.strip(".,")) for word in words if word.strip(".,").isdigit()), 0)
    finish = "tool_calls"
    if PLAN.get("fault") == "loop":
        said["content"], finish = "I will look at that now. " * 12, "stop"
    elif PLAN.get("fault") == "cut":
        said["content"], finish = "I will look at", "length"
    else:
        arguments = json.dumps({"number": number})
        said["tool_calls"] = [
            {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
        ]
    return {
        "choices": [{"index": 0, "message": said, "finish_reason": finish}],
        "usage": {"completion_tokens": 9},
    }


def main() -> None:
    """Serve."""
    PLAN.update(json.loads(Path(sys.argv[2]).read_text()))
    if "log" in PLAN:
        print(Path(PLAN["log"]).read_text(), end="", flush=True)
    try:
        http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
    except KeyboardInterrupt:
        time.sleep(0.01)


if __name__ == "__main__":
    main()
