"""The KV cache as the server's /metrics describes it: `vllm:cache_config_info`."""

from __future__ import annotations

import re
from dataclasses import dataclass

LINE = re.compile(r"^vllm:cache_config_info\{(?P<labels>.*)\}\s+1(?:\.0)?(?:\s+\d+)?\s*$", re.MULTILINE)
LABEL = re.compile(r'(?P<name>[A-Za-z_]\w*)="(?P<value>(?:[^"\\]|\\.)*)"')
ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True)
class CacheInfo:
    """One engine's KV cache; None for what the metric does not say."""

    engine: str | None
    num_gpu_blocks: int | None
    block_tokens: int | None
    cache_dtype: str | None
    utilisation: str | None

    @property
    def kv_tokens(self) -> int | None:
        """Blocks times tokens per block, where both are known."""
        known = self.num_gpu_blocks is not None and self.block_tokens is not None
        return self.num_gpu_blocks * self.block_tokens if known else None  # type: ignore[operator]


def read_cache_info(metrics: str) -> list[CacheInfo]:
    """One entry per engine; empty when the text has no such metric (an error page, an old vLLM)."""
    return [cache_info(match["labels"]) for match in LINE.finditer(metrics)]


def cache_info(labels: str) -> CacheInfo:
    """The entry that a label set describes."""
    found = {match["name"]: ESCAPED.sub(unescape, match["value"]) for match in LABEL.finditer(labels)}
    return CacheInfo(
        engine=found.get("engine"),
        num_gpu_blocks=whole(found.get("num_gpu_blocks")),
        block_tokens=whole(found.get("block_size")),
        cache_dtype=found.get("cache_dtype"),
        utilisation=found.get("gpu_memory_utilization"),
    )


def unescape(match: re.Match[str]) -> str:
    """The character that an escape in a label stands for."""
    return "\n" if match[1] == "n" else match[1]


def whole(text: str | None) -> int | None:
    """A positive whole number; None for `None` and anything else."""
    return int(text) if text is not None and re.fullmatch(r"[1-9]\d*", text) else None
