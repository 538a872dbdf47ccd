"""Damage to the arm's kernels, undone when its block ends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

KERNELS = "vllm.v1.attention.ops."


def kernel_modules(name: str) -> list[Any]:
    """The arm's modules of kernels that have a global of this name."""
    loaded = [module for path, module in sorted(sys.modules.items()) if path.startswith(KERNELS)]
    return [module for module in loaded if hasattr(module, name)]


@contextmanager
def kernel_global(name: str, new: Any) -> Iterator[None]:
    """Replace what the arm's kernels find under a global name, in every module of them."""
    originals = [(module, getattr(module, name)) for module in kernel_modules(name)]
    assert originals, f"no kernel of the arm knows {name}"
    for module, _ in originals:
        setattr(module, name, new)
    try:
        yield
    finally:
        for module, original in originals:
            setattr(module, name, original)


def drop_from_sums(launch: dict[str, Any], segment: int) -> None:
    """Take the weight of a segment from the scratch of vLLM's own reduction."""
    launch["segm_expsum_ptr"][..., segment] = 0.0
    launch["segm_output_ptr"][..., segment, :] = 0.0


def drop_from_log_sums(launch: dict[str, Any], segment: int) -> None:
    """The same where a row's log-sums lie densely, the first half of its segments in one buffer."""
    half = (launch["num_segments"] + 1) // 2
    rows = launch["output_ptr"].shape[0] * launch["NUM_QUERY_HEADS"]
    log_sums = launch["lse_low_ptr"].view(torch.float32).view(-1)
    log_sums[: rows * half].view(rows, half)[:, segment] = float("-inf")


REDUCTIONS = {"reduce_segments": drop_from_sums, "reduce_verify_segments": drop_from_log_sums}


class DroppedSegment:
    """A reduction as launched, but one segment of every row has lost its weight."""

    def __init__(self, name: str, segment: int) -> None:
        self.original = getattr(kernel_modules(name)[0], name)
        self.drop = REDUCTIONS[name]
        self.segment = segment

    def __getitem__(self, grid: Any) -> Any:
        def launch(**kwargs: Any) -> None:
            self.drop(kwargs, self.segment)
            self.original[grid](**kwargs)

        return launch


@contextmanager
def dropped_segment(segment: int = 1) -> Iterator[None]:
    """Every row of a split-KV leg loses a segment between the two kernels, whichever of them reduces."""
    with ExitStack() as damaged:
        for name in REDUCTIONS:
            if kernel_modules(name):
                damaged.enter_context(kernel_global(name, DroppedSegment(name, segment)))
        yield


REFUSALS = (("packed_blockers", "packed_alignment"), ("mq3d_blockers", "no_scratch"))
"""What refuses a batch and one of its reasons, the last patch's first."""


@contextmanager
def refused_kernel() -> Iterator[None]:
    """Every batch is refused the arm's fastest kernel: the packed one, or the split-KV one before it."""
    known = [(name, reason) for name, reason in REFUSALS if kernel_modules(name)]
    assert known, "the arm refuses no batch by a name known here"
    name, reason = known[0]
    original = getattr(kernel_modules(name)[0], name)

    def refusing(**batch: Any) -> tuple[str, ...]:
        return (*original(**batch), reason)

    with kernel_global(name, refusing):
        yield
