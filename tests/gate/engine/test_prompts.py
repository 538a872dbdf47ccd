"""Prompts of an exact length, made from a seed."""

from __future__ import annotations

import pytest

from ci.engine.prompts import PromptError, common_tail, exact_prompt, text_of


def by_bytes(text: str) -> list[int]:
    """One token per byte, as the dummy's tokenizer has it."""
    return list(text.encode())


def by_words(text: str) -> list[int]:
    """Some characters per token, in the manner of a real tokenizer, between a head and a tail."""
    return [9001, *(hash(word) % 5000 for word in text.split()), 9002, 9003]


@pytest.mark.parametrize("tokens", [2, 6747, 68013])
@pytest.mark.parametrize("kind", ["prose", "repeat"])
def test_exact(kind: str, tokens: int) -> None:
    """As many tokens as asked for, with one token per byte and with several characters per token."""
    assert len(exact_prompt(by_bytes, kind, 1, tokens)) == tokens
    whole = exact_prompt(by_words, kind, 1, max(tokens, 4), [9002, 9003])
    assert len(whole) == max(tokens, 4)
    assert (whole[0], whole[-2:]) == (9001, [9002, 9003])


def test_longer_begins_with_shorter() -> None:
    """The prefix cache serves a longer prompt from a shorter one of its kind."""
    short, long = (exact_prompt(by_bytes, "prose", 7, tokens) for tokens in (500, 900))
    assert long[:500] == short


def test_seed() -> None:
    """A seed gives one text, another seed another; a repeated prompt repeats."""
    assert text_of("prose", 1, 4000) == text_of("prose", 1, 4000) != text_of("prose", 2, 4000)
    assert len(set(text_of("repeat", 1, 4000).split(". "))) <= 2
    assert len(set(text_of("prose", 1, 4000).split(". "))) > 30


def test_common_tail() -> None:
    """What two chats end with is what their template adds."""
    assert common_tail([1, 2, 7, 8], [1, 5, 6, 7, 8]) == [7, 8]
    assert common_tail([1], [2]) == []


def test_no_prompt() -> None:
    """A tokenizer that gives one token for any text can make no prompt of ten."""
    with pytest.raises(PromptError, match="no prose prompt of 10 tokens"):
        exact_prompt(lambda _: [1], "prose", 1, 10)
    with pytest.raises(PromptError, match="no prose prompt of 2 tokens: 2 have to stand at its end"):
        exact_prompt(by_bytes, "prose", 1, 2, [9002, 9003])
