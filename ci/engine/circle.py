"""The circle in which random weights write, kept for a session: prompts end with it, so drafts are full.

A model without sense soon repeats a few tokens for ever. A prompt that ends with a stretch of them is gone on
with likewise, and an n-gram drafter has a full draft from the first step on: every step is a verify batch.
"""

from __future__ import annotations

import json
from pathlib import Path

from ci.engine.abba import SessionError
from ci.engine.engines import Engine, tokens_of
from ci.engine.prompts import exact_prompt
from ci.engine.server import ServerError
from ci.results.files import read_limited, write_atomic

CIRCLE_TOKENS = 32
"""At the end of a prompt. vLLM's n-gram of 5 finds 7 drafts in so many, up to a period of 20."""
CIRCLE_WORDS = 256
"""Tokens of the prompt behind which an engine shows its circle; half of what it then writes is left out."""
CIRCLE_FILE = "circle.json"
MAX_BYTES = 1 << 16


def kept_circle(folder: Path, engine: Engine, seed: int) -> list[int]:
    """The circle of a session's first engine: all boots are asked the same, whatever their arms would write.

    Args:
        folder: of the session.
        engine: asked only where the session has no circle yet.
        seed: of the words behind which it is shown; not those of a timed prompt.

    Raises:
        SessionError: the file is damaged.
        ServerError: the engine does not say what it writes.
    """
    path = folder / CIRCLE_FILE
    if not path.exists():
        write_atomic(path, json.dumps(circle(engine, seed)).encode() + b"\n")
    try:
        return tokens_of({"tokens": json.loads(read_limited(path, MAX_BYTES))})
    except (ValueError, ServerError) as error:
        raise SessionError(
            f"{path} does not hold token ids: {error}", remedy="begin a session anew: --fresh"
        ) from error


def circle(engine: Engine, seed: int) -> list[int]:
    """A stretch of what the engine writes, long enough behind other words for its circle to have begun.

    Raises:
        ServerError: it does not say what it writes, or wrote less than it was asked for.
    """
    words = exact_prompt(engine.encode, "prose", seed, CIRCLE_WORDS)
    written = engine.written(words, 2 * CIRCLE_TOKENS)
    if len(written) < 2 * CIRCLE_TOKENS:
        raise ServerError(
            f"the engine wrote {len(written)} tokens of {2 * CIRCLE_TOKENS}", remedy="read its log"
        )
    return written[-CIRCLE_TOKENS:]
