"""Every case of the table in one arm, captured once, so that a pass over them compiles and allocates nothing.

Run as a script it is a child of the suite (`armlib.children`): its first answer is {case: path}, and the
question "time" is answered by {case: microseconds}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from armlib.attention import Batch, Geometry, Layer, make_layer
from armlib.builder import make_builder
from armlib.children import serve
from armlib.config import vllm_config
from armlib.production import owner_of
from cases import CASES, CacheKey, Case, cache_lengths
from timing import FLUSH_BYTES, Captured, LauncherCall, capture, launcher_call, median_us

DEVICE = "cuda"
MIN_SEQS = 2
"""Of the configuration: what the first records of the suite were measured with."""
SEED = 1


class Bench:
    """The calls of some cases with the multi-query flag on, and the caches that they read."""

    def __init__(self, cases: Iterable[Case], device: str = DEVICE) -> None:
        self.device = device
        self.cases = tuple(cases)
        lengths = cache_lengths(self.cases)
        self.places = {key: self._place(key, length) for key, length in lengths.items()}
        self.calls = {case: self.call(case) for case in self.cases}

    def _place(self, key: CacheKey, length: int) -> tuple[Layer, Any]:
        """A written layer and the builder of its metadata."""
        shape = key.shape
        config = vllm_config(
            max_num_seqs=max(MIN_SEQS, key.seqs),
            max_num_batched_tokens=8192,
            num_heads_q=shape.heads_q,
            num_heads_kv=shape.heads_kv,
            head_size=shape.head_size,
            device=self.device,
        )
        written = Batch((1,) * key.seqs, length - 1)
        layer = make_layer(config, Geometry(shape.heads_q, shape.heads_kv, shape.head_size), written)
        source = self._normal(sum(written.seq_lens), shape.heads_kv, shape.head_size)
        layer.write(written, source, source.flip(0))
        return layer, make_builder(config, self.device)

    def _normal(self, *shape: int) -> torch.Tensor:
        generator = torch.Generator(self.device).manual_seed(SEED)
        return torch.randn(shape, generator=generator, device=self.device).half()

    def call(self, case: Case, flag: int = 1) -> LauncherCall:
        """Make a case's call for the first time, which compiles its kernels."""
        layer, builder = self.places[CacheKey(case.shape, case.seqs)]
        batch = Batch((case.tokens,) * case.seqs, case.context)
        query = self._normal(batch.tokens, case.shape.heads_q, case.shape.head_size)
        try:
            return launcher_call(layer, builder, batch, query, flag)
        except Exception as error:
            error.add_note(f"in case {case.name}, flag {flag}")
            raise

    def paths(self) -> dict[str, str]:
        """Which kernel each case takes."""
        return {case.name: call.path for case, call in self.calls.items()}


class Stopwatch:
    """Graphs by name, and passes over them."""

    def __init__(self, calls: Mapping[str, tuple[LauncherCall, int, int]]) -> None:
        """Capture calls: name -> (call, times in one graph, replays of a pass)."""
        self.graphs: dict[str, tuple[Captured, int]] = {
            name: (capture(call, times), repeats) for name, (call, times, repeats) in calls.items()
        }
        torch.cuda.empty_cache()  # other arms wait on the same card
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=DEVICE)

    def time(self) -> dict[str, float]:
        """One pass: the median microseconds of every graph."""
        return {
            name: median_us(captured, self.flush, repeats)
            for name, (captured, repeats) in self.graphs.items()
        }


def once(bench: Bench) -> dict[str, tuple[LauncherCall, int, int]]:
    """What a stopwatch times of every case."""
    return {case.name: (call, 1, case.repeats) for case, call in bench.calls.items()}


if __name__ == "__main__":
    owner_of("_launch_packed_attn")  # refuses to time a vLLM that is not this arm's
    bench = Bench(CASES)
    serve(bench.paths(), {"time": Stopwatch(once(bench)).time})
