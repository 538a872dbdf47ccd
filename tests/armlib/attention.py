"""One int4 attention layer of the arm, entered as the model runner enters it.

Metadata comes from the arm's builder, the cache is written by the arm's `do_kv_cache_update`, and the call
goes through `TritonAttentionImpl.forward`. Nothing here names a keyword that a patch passes from builder to
launcher.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.config import set_current_vllm_config
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend, TritonAttentionImpl
from vllm.v1.attention.ops import int4_per_token_head

from armlib.builder import BLOCK_SIZE

CACHE_DTYPE = "int4_per_token_head"
FLAG = "VLLM_INT4_MQ_3D"
DEBUG_FLAG = "VLLM_INT4_MQ_3D_DEBUG"
UNUSED_BLOCK = 2**30
"""What the block table holds where a sequence has no block: far outside any cache, so that using it shows."""
REASON = re.compile(
    r"NONE\(3d eligible\)|mq_but_flag_off|max_query_len_policy>\d+|q_token_capacity_failed"
    r"|num_seqs_policy>\d+|no_scratch|batch_invariant|packed_\w+"
)
"""Reason names, wherever on its line a series prints them."""


@dataclass(frozen=True)
class Geometry:
    """An attention shape: query heads, KV heads, head size in elements, activation type, cache block size."""

    heads_q: int = 24
    heads_kv: int = 4
    head_size: int = 256
    dtype: torch.dtype = torch.float16
    block_size: int = BLOCK_SIZE

    @property
    def softmax_scale(self) -> float:
        """The usual 1/sqrt(head size)."""
        return float(self.head_size**-0.5)


@dataclass(frozen=True)
class Batch:
    """Query lengths of the sequences of one step, each on top of `history` cached tokens."""

    q_lens: tuple[int, ...]
    history: int = 48
    padding: int = 0
    """Query tokens at the end that belong to no sequence, as a captured batch size leaves them."""

    @property
    def tokens(self) -> int:
        """Query tokens in all, padding included."""
        return sum(self.q_lens) + self.padding

    @property
    def seq_lens(self) -> list[int]:
        """Tokens in the cache per sequence, the query's own included."""
        return [self.history + n for n in self.q_lens]

    @property
    def starts(self) -> list[int]:
        """Offsets of the sequences' queries: one more than there are sequences."""
        return [0, *itertools.accumulate(self.q_lens)]


@dataclass
class Call:
    """One call of the launcher: what went in and came out, transform included."""

    query: torch.Tensor
    """[tokens, heads, head size], after the Hadamard transform."""
    output: torch.Tensor
    """[tokens, heads, head size], before its inverse."""


@dataclass
class Leg:
    """What one pass through the layer did."""

    output: torch.Tensor
    """[tokens, heads, head size]."""
    calls: list[Call]
    scratch_written: bool
    reasons: list[str]
    """One entry per call: the reason names on its debug line, joined by commas."""


@dataclass
class Layer:
    """An Impl with its cache, and the sequences that lie in it."""

    geometry: Geometry
    impl: TritonAttentionImpl
    kv_cache: torch.Tensor
    """uint8, logical [blocks, KV heads, block size, 2 x (head size / 2 + 4)]."""
    block_table: torch.Tensor
    """int32 [sequences, blocks per sequence]."""
    module: torch.nn.Module = field(default_factory=torch.nn.Module)

    def slots(self, batch: Batch) -> torch.Tensor:
        """Cache slots of every token of every sequence, sequence after sequence."""
        parts, size = [], self.geometry.block_size
        for row, length in enumerate(batch.seq_lens):
            position = torch.arange(length, device=self.block_table.device)
            block = self.block_table[row, position // size].long()
            parts.append(block * size + position % size)
        return torch.cat(parts)

    def table_for(self, batch: Batch) -> torch.Tensor:
        """The block table as a batch sees it: what lies past the end of a sequence is no block.

        Returns:
            int32 [sequences, blocks per sequence + 1], of a wider table as the model runner's is one; the
            last column is unused by every sequence.
        """
        table = torch.nn.functional.pad(self.block_table, (0, 1), value=UNUSED_BLOCK)
        column = torch.arange(table.shape[1], device=table.device)
        lengths = torch.tensor(batch.seq_lens, device=table.device)
        held = column[None, :] * self.geometry.block_size < lengths[:, None]
        seen = torch.where(held, table, UNUSED_BLOCK).int()
        return torch.nn.functional.pad(seen, (0, 3), value=UNUSED_BLOCK)[:, : table.shape[1]]

    def write(self, batch: Batch, key: torch.Tensor, value: torch.Tensor) -> None:
        """Write keys and values of all tokens through the arm's own cache update.

        Args:
            batch: the sequences.
            key, value: [sum of sequence lengths, KV heads, head size].
        """
        self.impl.do_kv_cache_update(self.module, key, value, self.kv_cache, self.slots(batch))


def make_layer(
    config: Any, geometry: Geometry, batch: Batch, seed: int = 0, features: Mapping[str, Any] | None = None
) -> Layer:
    """A layer on the config's device with room for `batch`, its blocks in shuffled physical order.

    Args:
        config: the configuration an attention backend sees.
        geometry: of the layer.
        batch: the sequences.
        seed: of the order of the blocks.
        features: further arguments of the Impl, by name: soft cap, sliding window, sinks, ALiBi slopes.
    """
    chosen = {"alibi_slopes": None, "sliding_window": None, **(features or {})}
    device = config.device_config.device
    per_seq = max(1, -(-max(batch.seq_lens) // geometry.block_size))
    blocks = per_seq * len(batch.q_lens)
    order = torch.randperm(blocks, generator=torch.Generator().manual_seed(seed))
    with set_current_vllm_config(config), torch.device(device):
        impl = TritonAttentionImpl(
            geometry.heads_q,
            geometry.head_size,
            geometry.softmax_scale,
            geometry.heads_kv,
            kv_cache_dtype=CACHE_DTYPE,
            **chosen,
        )
        shape = TritonAttentionBackend.get_kv_cache_shape(
            blocks, geometry.block_size, geometry.heads_kv, geometry.head_size, CACHE_DTYPE
        )
        physical = TritonAttentionBackend.get_kv_cache_stride_order()
    raw = torch.zeros([shape[axis] for axis in physical], dtype=torch.uint8, device=device)
    cache = raw.permute([physical.index(axis) for axis in range(len(shape))])
    return Layer(geometry, impl, cache, order.view(len(batch.q_lens), per_seq).int().to(device))


def common_metadata(layer: Layer, batch: Batch) -> CommonAttentionMetadata:
    """What the model runner hands to the builder for this batch."""
    device = layer.kv_cache.device
    starts = torch.tensor(batch.starts, dtype=torch.int32)
    query_slots = [chunk[batch.history :] for chunk in layer.slots(batch).split(batch.seq_lens)]
    return CommonAttentionMetadata(
        query_start_loc=starts.to(device),
        query_start_loc_cpu=starts,
        seq_lens=torch.tensor(batch.seq_lens, dtype=torch.int32, device=device),
        num_reqs=len(batch.q_lens),
        num_actual_tokens=batch.tokens,
        max_query_len=max(batch.q_lens),
        max_seq_len=max(batch.seq_lens),
        block_table_tensor=layer.table_for(batch),
        slot_mapping=torch.cat(query_slots),
    )


def scratch_of(metadata: Any) -> list[torch.Tensor]:
    """The split-KV buffers: the only fp32 tensors that the metadata carries."""
    return [
        value
        for value in vars(metadata).values()
        if isinstance(value, torch.Tensor) and value.dtype == torch.float32
    ]


def run_leg(layer: Layer, builder: Any, batch: Batch, query: torch.Tensor, flag: bool) -> Leg:
    """Run one batch with the multi-query flag set or not, over scratch filled with NaN.

    Args:
        layer: holds the cache, already written.
        builder: the arm's metadata builder.
        batch: the sequences.
        query: [tokens, query heads, head size].
        flag: the value of VLLM_INT4_MQ_3D for this leg.
    """
    metadata = builder.build(0, common_metadata(layer, batch))
    scratch = scratch_of(metadata)
    for buffer in scratch:
        buffer.fill_(float("nan"))
    output = torch.full_like(query, float("nan"))
    with (
        environment({FLAG: str(int(flag)), DEBUG_FLAG: "1"}),
        dispatch_lines() as lines,
        launches(output) as calls,
    ):
        layer.impl.forward(layer.module, query, query, query, layer.kv_cache, metadata, output)
    return Leg(
        output=output,
        calls=calls,
        scratch_written=any(not bool(buffer.isnan().all()) for buffer in scratch),
        reasons=[",".join(REASON.findall(line)) for line in lines],
    )


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def dispatch_lines() -> Iterator[list[str]]:
    """Collect the log lines that give a dispatch reason."""
    lines: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if REASON.search(text):
                lines.append(text)

    # The module's own logger, whatever level the run shows: vLLM's root may be set to warnings.
    logger = logging.getLogger(int4_per_token_head.__name__)
    handler, level = Collect(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def launches(output: torch.Tensor) -> Iterator[list[Call]]:
    """Record every call of the launcher: query and output are told apart by what they are, not by name."""
    calls: list[Call] = []
    original = int4_per_token_head._launch_packed_attn

    def recording(*args: Any, **kwargs: Any) -> None:
        tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)]
        out = next(t for t in tensors if t.data_ptr() == output.data_ptr())
        query = next(t for t in tensors if t.shape == out.shape and t.data_ptr() != out.data_ptr())
        original(*args, **kwargs)
        calls.append(Call(query.clone(), out.clone()))

    int4_per_token_head._launch_packed_attn = recording
    try:
        yield calls
    finally:
        int4_per_token_head._launch_packed_attn = original
