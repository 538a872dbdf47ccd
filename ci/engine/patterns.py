"""Where a boot log says which number, in the wordings of vLLM 0.6 to 0.33.

Each pattern ends in its unit: a number that a cut or a wrap left unfinished does not match.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

NUMBER = r"-?\d[\d,]{0,19}(?:\.\d{1,20})?"
"""Of bounded length: a longer row of digits is damage, and would overflow."""
COUNT = r"-?\d[\d,]{0,19}"
SIZE = rf"(?P<value>{NUMBER}) ?(?P<unit>[GMK]i?B)\b"
SECONDS = rf"(?P<value>{NUMBER}) (?:s|secs|seconds)\b"


class Quantity(enum.Enum):
    """What a boot log can say; sizes are bytes, times seconds."""

    MODEL_LOAD = "model loading"
    LOAD_S = "model loading time"
    WEIGHTS_S = "weight loading time"
    AVAILABLE_KV = "available KV cache memory"
    RESERVED_KV = "reserved KV cache memory"
    NEEDED_KV = "needed KV cache memory"
    KV_TOKENS = "KV cache tokens"
    GPU_BLOCKS = "GPU blocks"
    BLOCK_OVERRIDE = "GPU block override"
    MAX_CONCURRENCY = "maximum concurrency"
    MAX_LEN = "tokens per request"
    GRAPH_MEMORY = "graph memory"
    GRAPH_S = "graph capture time"
    GRAPH_ESTIMATE = "estimated graph memory"
    WEIGHTS = "weights"
    ACTIVATION = "peak activation"
    NON_TORCH = "non-torch memory"
    FREE_AT_START = "free memory at start"
    COMPILE_S = "compile time"
    DYNAMO_S = "bytecode transform time"
    INIT_S = "engine start time"
    INIT_COMPILE_S = "compile time within engine start"
    DRAFTED = "tokens drafted per step"
    DRAFTS_ASKED = "tokens asked of the drafter"


class Kind(enum.Enum):
    """What the digits of a pattern are."""

    SIZE = "bytes"
    COUNT = "count"
    NUMBER = "number"


@dataclass(frozen=True)
class Pattern:
    """One wording."""

    quantity: Quantity
    kind: Kind
    regex: re.Pattern[str]


def _pattern(quantity: Quantity, kind: Kind, text: str) -> Pattern:
    return Pattern(quantity, kind, re.compile(text))


LOADING = r"(?:Model loading|Loading model weights) took "
USAGE = r"Actual usage is .*?"

PATTERNS: tuple[Pattern, ...] = (
    _pattern(Quantity.MODEL_LOAD, Kind.SIZE, rf"{LOADING}{SIZE}"),
    _pattern(Quantity.LOAD_S, Kind.NUMBER, rf"{LOADING}{NUMBER} ?[GM]i?B(?: memory)? and {SECONDS}"),
    _pattern(Quantity.WEIGHTS_S, Kind.NUMBER, rf"Loading weights took {SECONDS}"),
    _pattern(Quantity.AVAILABLE_KV, Kind.SIZE, rf"Available KV cache memory: {SIZE}"),
    _pattern(Quantity.AVAILABLE_KV, Kind.SIZE, rf"memory reserved for KV Cache is {SIZE}"),
    _pattern(
        Quantity.AVAILABLE_KV,
        Kind.SIZE,
        rf"Current kv cache memory in use is (?P<value>{NUMBER}) (?P<unit>bytes|GiB)\b",
    ),
    _pattern(Quantity.RESERVED_KV, Kind.SIZE, rf"reserved {SIZE} memory for KV Cache"),
    _pattern(Quantity.NEEDED_KV, Kind.SIZE, rf"\({SIZE} KV cache is needed"),
    _pattern(Quantity.KV_TOKENS, Kind.COUNT, rf"KV cache size: (?P<value>{COUNT}) tokens"),
    _pattern(Quantity.GPU_BLOCKS, Kind.COUNT, r"# (?:GPU|cuda) blocks: (?P<value>\d{1,18})(?=,|\s*$)"),
    _pattern(
        Quantity.BLOCK_OVERRIDE,
        Kind.COUNT,
        r"num_gpu_blocks=[1-9]\d* with num_gpu_blocks_override=(?P<value>\d{1,18})(?!\d)",
    ),
    _pattern(
        Quantity.MAX_CONCURRENCY,
        Kind.NUMBER,
        rf"Maximum concurrency for {NUMBER} tokens per request: (?P<value>{NUMBER})x",
    ),
    _pattern(Quantity.MAX_LEN, Kind.COUNT, rf"Maximum concurrency for (?P<value>{COUNT}) tokens per request"),
    _pattern(Quantity.GRAPH_MEMORY, Kind.SIZE, rf"Graph capturing finished in .*?took {SIZE}"),
    _pattern(Quantity.GRAPH_MEMORY, Kind.SIZE, rf"CUDA graph pool memory: {SIZE} \(actual\)"),
    _pattern(Quantity.GRAPH_S, Kind.NUMBER, rf"Graph capturing finished in {SECONDS}"),
    _pattern(Quantity.GRAPH_ESTIMATE, Kind.SIZE, rf"Estimated CUDA graph memory: {SIZE}"),
    _pattern(Quantity.GRAPH_ESTIMATE, Kind.SIZE, rf"CUDA graph pool memory: .*?, {SIZE} \(estimated\)"),
    _pattern(Quantity.WEIGHTS, Kind.SIZE, rf"model weights take {SIZE}"),
    _pattern(Quantity.WEIGHTS, Kind.SIZE, rf"{USAGE}{SIZE} for (?:weight|consumed memory)"),
    _pattern(Quantity.ACTIVATION, Kind.SIZE, rf"activation peak memory takes {SIZE}"),
    _pattern(Quantity.ACTIVATION, Kind.SIZE, rf"{USAGE}, {SIZE} for peak activation"),
    _pattern(Quantity.NON_TORCH, Kind.SIZE, rf"non_torch_memory takes {SIZE}"),
    _pattern(Quantity.NON_TORCH, Kind.SIZE, rf"{USAGE}, {SIZE} for non-torch memory"),
    _pattern(Quantity.FREE_AT_START, Kind.SIZE, rf"Initial free memory {SIZE}, reserved"),
    _pattern(Quantity.COMPILE_S, Kind.NUMBER, rf"torch\.compile (?:took|takes) {SECONDS} in total"),
    _pattern(Quantity.DYNAMO_S, Kind.NUMBER, rf"Dynamo bytecode transform time: {SECONDS}"),
    _pattern(Quantity.INIT_S, Kind.NUMBER, rf"init engine \([^)]*\) took {SECONDS}"),
    _pattern(
        Quantity.INIT_COMPILE_S,
        Kind.NUMBER,
        rf"init engine \([^)]*\) took {NUMBER} s \(compilation: {SECONDS}",
    ),
    _pattern(Quantity.DRAFTED, Kind.COUNT, r"drafting (?P<value>\d{1,18}) tokens per step"),
    _pattern(
        Quantity.DRAFTS_ASKED,
        Kind.COUNT,
        r"the remaining \d+ of (?P<value>\d{1,18}) verify positions are filled from context",
    ),
)

BACKEND = re.compile(
    r"Using (?:AttentionBackendEnum\.)?(?P<value>(?!\w* ?\w* ?MoE)[A-Z][\w ]*?) (?:attention )?backend\b"
)
CAPTURES = re.compile(r"['\"]?cudagraph_capture_sizes['\"]?\s*[:=]\s*\[(?P<value>[\d,\s]*)\]")
CAPTURE = re.compile(r"\d{1,9}")
"""One size of that list."""
ENGINE_VERSION = re.compile(r"(?:LLM engine|vLLM (?:API server )?version) \(?v?(?P<value>\d+\.\d+[\w.+]*)")
V0 = re.compile(
    r"Memory profiling takes |# cuda blocks: |\[(?:executor_base|llm_engine)\.py:|\bmodel_runner\.py:\d+\] "
    r"Capturing cudagraphs for decoding"
)
V1 = re.compile(
    r"\((?:EngineCore|Worker_|APIServer)|gpu_(?:model_runner|worker)\.py|kv_cache_utils\.py|V1 LLM engine"
)
CPU_DEVICE = re.compile(r"\bcpu_worker\.py:|\bcpu_model_runner\.py:")
WARM = re.compile(
    r"Directly load (?:AOT compilation|the [\w-]+ graph|the compiled graph)"
    r"|loaded? (?:the )?compiled graph\(s\)? from (?:the )?cache",
    re.IGNORECASE,
)
"""A boot that says this ran code that another boot compiled."""
COMPILED = re.compile(r"Compiling a graph for |Cache the graph of ")
"""Something was compiled here. `torch.compile took 1.61 s` is no proof: a warm boot prints it too."""
CACHE_OFF = re.compile(r"torch\.compile cache is disabled", re.IGNORECASE)
EAGER = re.compile(r"\benforce_eager['\"]?\s*[=:]\s*True|Cudagraph is disabled under eager mode")
READY = re.compile(r"Application startup complete")
DEAD = re.compile(
    r"EngineCore failed to start|Engine core initialization failed|EngineCore encountered a fatal error"
    r"|EngineDeadError|WorkerProc failed to start|WorkerProc initialization failed"
    r"|died unexpectedly|Engine process failed to start|Application startup failed"
)
CAUSES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("out of memory", re.compile(r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|HIP out of memory")),
    ("no memory for cache blocks", re.compile(r"No available memory for the cache blocks")),
    ("KV cache too small", re.compile(r"larger than the available KV cache memory")),
    (
        "block divisibility",
        re.compile(r"scheduler_block_size % hash_block_size|AssertionError.*hash_block_size"),
    ),
    ("scratch assert", re.compile(r"do not carry the declared capacity")),
)
"""Why a boot failed, in the order of trust: running out of memory brings the others with it."""
EXCEPTION = re.compile(
    r"(?:^|\]:? )(?P<value>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?:: .*)?)\s*$"
)
"""The last line of a traceback, alone or behind vLLM's own prefix."""
STAGES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("model loading", re.compile(r"Starting to load model|Loading model from scratch|Loading weights took")),
    ("memory profile", re.compile(LOADING)),
    (
        "cache blocks",
        re.compile(r"Available KV cache memory: |memory reserved for KV Cache is |skipped memory profiling"),
    ),
    ("graph capture", re.compile(r"Capturing (?:CUDA ?graph|cuda ?graph)", re.IGNORECASE)),
    ("warm-up", re.compile(r"Graph capturing finished in |CUDA graph pool memory: ")),
)
"""What a boot is at from the line on, in the order of a boot; the last one that was reached counts."""
DEGRADED = re.compile(r"int4 mq3d DEGRADED")
FATAL_LEVELS = ("ERROR", "CRITICAL")
