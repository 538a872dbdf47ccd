"""The KV cache as /metrics tells it."""

from __future__ import annotations

from ci.engine.cacheinfo import read_cache_info

PAGE = (
    "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n"
    "# TYPE vllm:cache_config_info gauge\n"
    'vllm:cache_config_info{block_size="16",cache_dtype="int4_per_token_head",engine="0",'
    'gpu_memory_utilization="0.93",note="a \\"quoted\\", brace } here",num_gpu_blocks="10812"} 1.0\n'
)


def test_blocks_times_tokens() -> None:
    """Blocks and block size give the tokens; quotes and braces in other labels do no harm."""
    (info,) = read_cache_info(PAGE)
    assert (info.num_gpu_blocks, info.block_tokens, info.kv_tokens) == (10_812, 16, 172_992)
    assert (info.engine, info.cache_dtype, info.utilisation) == ("0", "int4_per_token_head", "0.93")


def test_unknown_is_none() -> None:
    """A block count that is not there yet gives no token count."""
    (info,) = read_cache_info(PAGE.replace("10812", "None"))
    assert info.num_gpu_blocks is None
    assert info.kv_tokens is None


def test_page_without_the_metric() -> None:
    """An error page has no engines."""
    assert read_cache_info("Internal Server Error") == []
