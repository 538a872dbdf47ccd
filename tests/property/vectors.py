"""The published grid of configurations and its query-length vectors.

The order is part of the definition: one random generator runs through all configurations, so another order
would draw other vectors and the published counts would not come out.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

MAX_NUM_BATCHED_TOKENS = (8, 16, 64, 128, 2048, 8192, 131072)
MAX_NUM_SEQS = (1, 2, 4, 7, 8, 9, 16, 31, 32, 33, 64, 256)
SEQ_THRESHOLD_3D = (1, 2, 4, 8, 16, 32, 64, 128)
MAX_QUERY_LEN = (1, 2, 8, 16, 17, 32)
SEED = 20260901
RANDOM_VECTORS = 238
CAPTURE_SIZES = (1, 2, 4, 8, 16, 24, 32)
"""The capture list whose nearest entry stands for sequence sizing under CUDA graphs."""


@dataclass(frozen=True)
class Configuration:
    """One point of the grid; `max_query_len` caps the query tokens of one sequence."""

    max_num_batched_tokens: int
    max_num_seqs: int
    seq_threshold: int
    max_query_len: int

    @property
    def policy_seqs(self) -> int:
        """Most sequences that a batch on the split-KV kernel can have."""
        return min(self.max_num_seqs, self.seq_threshold)

    def accepts(self, vector: list[int]) -> bool:
        """Whether policy and scheduler let a batch with these query lengths reach the split-KV kernel."""
        return (
            len(vector) <= self.policy_seqs
            and max(vector) <= self.max_query_len
            and sum(vector) <= self.max_num_batched_tokens
        )


def grid() -> list[Configuration]:
    """All configurations, in the published order."""
    return [
        Configuration(*point)
        for point in itertools.product(MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS, SEQ_THRESHOLD_3D, MAX_QUERY_LEN)
    ]


def corner_vectors(seqs: int, cap: int) -> list[list[int]]:
    """Query lengths at the edges of what `seqs` sequences of at most `cap` tokens can bring."""
    corners = [[cap] * seqs, [cap], [1] * seqs, [cap] * max(1, seqs - 1) + [1]]
    if seqs >= 2:
        corners.append([cap] + [1] * (seqs - 1))
    return corners


def vectors(configuration: Configuration, rng: random.Random) -> Iterator[list[int]]:
    """The corner vectors of a configuration, then its random ones, drawn from the shared generator.

    Lengths are randint(1, sequences + 2) and entries randint(1, cap + 2), written out: ten million calls
    of `randint` take half of the suite's time. A test holds them against `randint` itself.
    """
    seqs, cap = configuration.policy_seqs, configuration.max_query_len
    yield from corner_vectors(seqs, cap)
    bits = rng.getrandbits
    lengths, entries = seqs + 2, cap + 2
    length_bits, entry_bits = lengths.bit_length(), entries.bit_length()
    for _ in range(RANDOM_VECTORS):
        length = bits(length_bits)
        while length >= lengths:
            length = bits(length_bits)
        vector = []
        for _ in range(length + 1):
            entry = bits(entry_bits)
            while entry >= entries:
                entry = bits(entry_bits)
            vector.append(entry + 1)
        yield vector


def nearest_capture_size(threshold: int) -> int:
    """The capture size nearest the threshold, the first one on ties."""
    return min(CAPTURE_SIZES, key=lambda size: abs(size - threshold))
