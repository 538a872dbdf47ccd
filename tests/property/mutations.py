"""Sizing rules that are known to be short; each must turn the suite red."""

from __future__ import annotations

from collections.abc import Callable

from vectors import Configuration, nearest_capture_size

Rows = Callable[[Configuration], int]

MUTATIONS: dict[str, Rows] = {
    "seq-rows": lambda configuration: configuration.seq_threshold,
    "snapped-rows": lambda configuration: nearest_capture_size(configuration.seq_threshold),
}
"""Sequence-unit sizing: as allocated without CUDA graphs, and as replaced by the nearest capture size."""
