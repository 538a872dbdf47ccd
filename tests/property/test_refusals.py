"""What the launcher keeps off the packed kernel: each feature and layout by itself, for its own reason."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from armlib.builder import BLOCK_SIZE
from armlib.production import owner_of, packed_launcher

HEADS_Q, HEADS_KV, HEAD_SIZE = 6, 1, 256
SEGMENTS = 16
RECORD = HEAD_SIZE // 2 + 4
"""Bytes of a key or a value with its scale, which lie side by side in the cache."""
SLOT = 2 * RECORD
BLOCK = BLOCK_SIZE * SLOT


def bytes_of(
    strides: tuple[int, ...] = (BLOCK, SLOT, SLOT, 1),
    offset: int = 0,
    width: int = HEAD_SIZE // 2,
    misplaced: int = 0,
) -> torch.Tensor:
    """Half of a cache of two blocks, uint8 [blocks, block size, KV heads, width].

    Args:
        strides: of its four dimensions.
        offset: of its storage, in bytes.
        width: bytes of a vector.
        misplaced: where the storage itself starts, in bytes after a multiple of 16.
    """
    storage = torch.frombuffer(bytearray(1 << 15), dtype=torch.uint8, offset=misplaced)
    return storage.as_strided((2, BLOCK_SIZE, HEADS_KV, width), strides, offset)


WORDS = {"keys": bytes_of(), "values": bytes_of(offset=RECORD)}
NO_WORDS = {
    "block": bytes_of((BLOCK + 2, SLOT, SLOT, 1)),
    "slot": bytes_of((BLOCK, SLOT - 2, SLOT, 1)),
    "head": bytes_of((BLOCK, SLOT, SLOT + 1, 1)),
    "last-stride": bytes_of((2 * BLOCK, 2 * SLOT, 2 * SLOT, 2)),
    "width": bytes_of(width=HEAD_SIZE // 2 - 2),
    "storage-offset": bytes_of(offset=2, misplaced=2),
    "address": bytes_of(misplaced=2),
}
"""Each lacks one condition of reading it in 32-bit words."""

FEATURES: dict[str, dict[str, Any]] = {
    "sliding_window": {"window_size": (32, 0)},
    "softcap": {"softcap": 1.0},
    "sinks": {"sinks": torch.zeros(HEADS_Q)},
    "alibi": {"alibi_slopes": torch.zeros(HEADS_Q)},
    "qq_bias": {"qq_bias": torch.zeros(1, 1)},
    "mm_prefix": {"mm_prefix_range": torch.zeros(1, 1, 2, dtype=torch.int32)},
    "fp8_output": {"output_scale": torch.ones(1)},
}
"""A feature of the general kernel -> the launcher's arguments that ask for it."""
LAYOUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "head_size": ("head_size", {"q": torch.zeros(1, HEADS_Q, 32)}),
    "alignment-keys": ("alignment", {"k_cache": NO_WORDS["slot"]}),
    "alignment-values": ("alignment", {"v_cache": NO_WORDS["slot"]}),
}
"""A shape -> the refusal that it causes, and the launcher's arguments that have it."""
REFUSALS = {name: (name, arguments) for name, arguments in FEATURES.items()} | LAYOUTS


class AskedError(Exception):
    """Raised where the launcher has asked for the refusals, before a kernel runs."""


def asked(owner: Any, monkeypatch: pytest.MonkeyPatch, **changed: Any) -> tuple[set[str], tuple[str, ...]]:
    """The features that the launcher asks about for a batch of one token, and the refusals that it gets."""
    seen: list[tuple[set[str], tuple[str, ...]]] = []
    original = owner.packed_blockers

    def asking(**batch: Any) -> None:
        seen.append((set(batch["plain"]), original(**batch)))
        raise AskedError

    arguments: dict[str, Any] = dict.fromkeys(inspect.signature(owner._launch_packed_attn).parameters)
    arguments |= {
        "q": torch.zeros(1, HEADS_Q, HEAD_SIZE),
        "k_cache": WORDS["keys"],
        "v_cache": WORDS["values"],
        "max_seqlen_q": 1,
        "seqused_k": torch.ones(1, dtype=torch.int32),
        "window_size": (-1, -1),
        "softcap": 0,
        "seq_threshold_3D": 1,
        "num_par_softmax_segments": SEGMENTS,
        "softmax_segm_output": torch.zeros(1, HEADS_Q, SEGMENTS, HEAD_SIZE),
        "softmax_segm_max": torch.zeros(1, HEADS_Q, SEGMENTS),
        "softmax_segm_expsum": torch.zeros(1, HEADS_Q, SEGMENTS),
    }
    with monkeypatch.context() as patch:
        patch.setattr(owner, "packed_blockers", asking)
        with pytest.raises(AskedError):
            owner._launch_packed_attn(**arguments | changed)
    ((features, refusals),) = seen
    return features, refusals


@pytest.fixture
def owner() -> Any:
    """The module of the launcher; None in an arm without the packed kernel."""
    module = owner_of("_launch_packed_attn")
    if packed_launcher() is None:
        assert "packed_blockers" not in vars(module)
        return None
    return module


def test_plain_attention_is_not_refused(owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher asks about the features that are tested here and no others; nothing refuses the batch."""
    if owner is not None:
        assert asked(owner, monkeypatch) == (set(FEATURES), ())


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal(name: str, owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One feature or layout refuses the batch by itself, and for its own reason alone."""
    refusal, arguments = REFUSALS[name]
    if owner is not None:
        assert asked(owner, monkeypatch, **arguments)[1] == (f"packed_{refusal}",)


def test_words(owner: Any) -> None:
    """Both halves of the cache as vLLM lays it out can be read in words."""
    if owner is not None:
        assert owner.has_word_strides(*WORDS.values())


@pytest.mark.parametrize("name", NO_WORDS)
def test_no_words(name: str, owner: Any) -> None:
    """One condition that is not met, in either half, is enough to refuse."""
    if owner is not None:
        assert not owner.has_word_strides(NO_WORDS[name], WORDS["values"])
        assert not owner.has_word_strides(WORDS["keys"], NO_WORDS[name])


@pytest.mark.parametrize(
    ("device", "rocm", "major"),
    [("xpu", False, 8), ("cuda", True, 9), ("cuda", False, 7), ("cuda", False, 8)],
)
def test_unknown_cards(
    device: str, rocm: bool, major: int, owner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No block fits on another maker's card, even one that calls itself "cuda" as ROCm's, or before sm_80."""
    if owner is not None:
        names = packed_launcher().__globals__
        properties = SimpleNamespace(
            major=major, multi_processor_count=68, shared_memory_per_multiprocessor=100 << 10
        )
        monkeypatch.setattr(type(names["current_platform"]), "is_rocm", lambda _self: rocm)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: properties)
        card = names["card_of"].__wrapped__(torch.device(device))
        blockers = owner.packed_blockers(head_size=HEAD_SIZE, plain={}, word_strides=True, card=card)
        known = (device, rocm, major) == ("cuda", False, 8)
        assert blockers == (() if known else ("packed_shared_memory",))
        if known:
            assert tuple(card) == (68, 100 << 10)


def test_a_card_without_room(owner: Any) -> None:
    """Where not one block fits, the packed kernel leaves the batch to the general one and says why."""
    if owner is not None:
        card = packed_launcher().__globals__["Card"]
        refused = [
            owner.packed_blockers(head_size=HEAD_SIZE, plain={}, word_strides=True, card=card(16, kib << 10))
            for kib in (48, 49)
        ]
        assert refused == [("packed_shared_memory",), ()]
