"""A model to boot anywhere: configuration and tokenizer made on the spot, random weights, no download.

Target and drafter have the served attention geometry (24 and 32 query heads, 4 KV heads, head size 256), so a
boot has two scratch geometries. The text that it generates means nothing.
"""

from __future__ import annotations

import json
from pathlib import Path

from ci.results.files import write_atomic

VOCABULARY = 512
"""256 bytes, the special tokens, and padding to a round number."""
SPECIALS = ("<|end|>", "<|pad|>")
HEAD_SIZE = 256
KV_HEADS = 4
MAX_POSITIONS = 262_144


def write_dummy(folder: Path, *, target_layers: int = 8, drafter_layers: int = 2) -> None:
    """Write `target/` and `drafter/` into `folder`; what is there already is written again."""
    for name, heads, layers in (("target", 24, target_layers), ("drafter", 32, drafter_layers)):
        write_model(folder / name, heads, layers)


def write_model(folder: Path, heads: int, layers: int) -> None:
    """Write one model folder."""
    files = {
        "config.json": model_config(heads, layers),
        "generation_config.json": {"eos_token_id": 256, "pad_token_id": 257},
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": SPECIALS[0],
            "pad_token": SPECIALS[1],
            "model_max_length": MAX_POSITIONS,
        },
    }
    for name, content in files.items():
        write_atomic(folder / name, json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n")


def model_config(heads: int, layers: int) -> dict[str, object]:
    """A small dense Qwen3 with the given number of query heads."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 256,
        "eos_token_id": 256,
        "pad_token_id": 257,
        "head_dim": HEAD_SIZE,
        "hidden_act": "silu",
        "hidden_size": 1024,
        "initializer_range": 0.02,
        "intermediate_size": 2048,
        "max_position_embeddings": MAX_POSITIONS,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000.0,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
        "use_cache": True,
        "vocab_size": VOCABULARY,
    }


def tokenizer() -> dict[str, object]:
    """One token per byte, in the `tokenizer.json` form: any text has as many tokens as bytes."""
    vocabulary = {character: index for index, character in enumerate(byte_characters())}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": 256 + index,
                "content": content,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for index, content in enumerate(SPECIALS)
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": False,
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocabulary,
            "merges": [],
        },
    }


def byte_characters() -> list[str]:
    """The printable character that stands for each byte in a byte-level vocabulary (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spare = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]
