"""Prompts from a seed: prose-like or repeated, of exactly so many tokens.

A longer prompt of one kind and seed begins with the shorter ones up to their tails, so a prefix cache saves
their prefill.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence

from ci.errors import GateError

NOUNS = """agency archive capsule committee crew engine engineer flight footage shield history landing launch
manual mission module moon morning ocean orbit panel parachute pilot press program recovery report rocket
ship signal station surface tower valve window year"""
VERBS = "carried changed delayed described followed kept left lifted measured met moved passed reached showed"
ADJECTIVES = "early empty final first heavy later long narrow new old quiet second small steady third white"
LINKS = "after although and because before but so until when while"
REPEATED = "The first flights of the program carried no crew. "
FIRST_CHARS_PER_TOKEN = 5
MAX_CHARS_PER_TOKEN = 64

Encode = Callable[[str], Sequence[int]]


class PromptError(GateError):
    """No prompt of the wanted length can be made."""


def sentences(kind: str, seed: int) -> Iterator[str]:
    """Sentences without end, the same for the same seed."""
    if kind == "repeat":
        yield from itertools.repeat(REPEATED)
    draw = random.Random(f"{kind}-{seed}")  # noqa: S311 - a text, not a secret
    while True:
        clause = [clause_of(draw) for _ in range(draw.choice((1, 1, 2)))]
        text = f" {word(draw, LINKS)} ".join(clause)
        yield f"{text[0].upper()}{text[1:]}. "


def clause_of(draw: random.Random) -> str:
    """A subject, a verb and an object."""
    subject, thing = (f"{word(draw, ADJECTIVES)} {word(draw, NOUNS)}" for _ in range(2))
    return f"the {subject} {word(draw, VERBS)} a {thing}"


def word(draw: random.Random, words: str) -> str:
    """One of these words."""
    return draw.choice(words.split())


def text_of(kind: str, seed: int, chars: int) -> str:
    """At least so many characters, in whole sentences."""
    words: list[str] = []
    length = 0
    for sentence in sentences(kind, seed):
        if length >= chars:
            break
        words.append(sentence)
        length += len(sentence)
    return "".join(words)


def exact_prompt(encode: Encode, kind: str, seed: int, tokens: int, tail: Sequence[int] = ()) -> list[int]:
    """Token ids of a prompt of exactly `tokens` tokens.

    Args:
        encode: the model's tokenizer; what it puts around a text stays.
        kind: `prose` or `repeat`.
        seed: of the prose.
        tokens: the length wanted.
        tail: tokens that have to stand at the end, such as the opening of an answer in a chat.

    Raises:
        PromptError: the tokenizer makes too few tokens of a long text, or the tail leaves no room for one.
    """
    if tokens <= len(tail):
        raise PromptError(f"no {kind} prompt of {tokens} tokens: {len(tail)} have to stand at its end")
    per_token = FIRST_CHARS_PER_TOKEN
    while per_token <= MAX_CHARS_PER_TOKEN:
        ids = list(encode(text_of(kind, seed, tokens * per_token)))
        body = ids[: len(ids) - len(tail)]
        if len(body) >= tokens - len(tail):
            return body[: tokens - len(tail)] + list(tail)
        per_token *= 2
    raise PromptError(
        f"no {kind} prompt of {tokens} tokens: {len(ids)} tokens in {tokens * per_token // 2} characters"
    )


def common_tail(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """The tokens in which both end: of two chats that differ in their message, what follows the message."""
    length = 0
    for one, other in zip(reversed(first), reversed(second), strict=False):
        if one != other:
            break
        length += 1
    return list(first[len(first) - length :])
