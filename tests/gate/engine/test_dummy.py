"""The dummy model: two geometries, one vocabulary, nothing that has to be fetched."""

from __future__ import annotations

import json
from pathlib import Path

from ci.engine.dummy import byte_characters, write_dummy


def test_two_geometries(tmp_path: Path) -> None:
    """Target and drafter differ in query heads only, so that one boot has two scratch geometries."""
    write_dummy(tmp_path)
    target, drafter = (
        json.loads((tmp_path / name / "config.json").read_text()) for name in ("target", "drafter")
    )
    assert (target["num_attention_heads"], drafter["num_attention_heads"]) == (24, 32)
    for name in ("num_key_value_heads", "head_dim", "vocab_size"):
        assert target[name] == drafter[name]
    assert (target["num_key_value_heads"], target["head_dim"]) == (4, 256)


def test_every_byte_has_a_token(tmp_path: Path) -> None:
    """The vocabulary has each byte once, and ids stay below the model's vocabulary."""
    write_dummy(tmp_path)
    tokenizer = json.loads((tmp_path / "target" / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(256))
    assert [vocabulary["A"], vocabulary["Ġ"], vocabulary["Ċ"]] == [65, 32, 10]
    assert len(set(byte_characters())) == 256
    assert [token["id"] for token in tokenizer["added_tokens"]] == [256, 257]


def test_writing_again_changes_nothing(tmp_path: Path) -> None:
    """The same model is the same bytes."""
    write_dummy(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    write_dummy(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before
    assert len(before) == 8
