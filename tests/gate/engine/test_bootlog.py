"""A boot report says what the log says, and nothing that it does not say."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from ci.engine.bootlog import END_MARK, BootReport, Lineage, Outcome, closing_line, read_boot_log
from ci.engine.patterns import Quantity
from ci.engine.scratchlines import ScratchEvent
from ci.engine.units import GIB, MIB

LOGS = Path(__file__).parent / "logs"
THREE = sorted(LOGS.glob("*.log"))


def read(text: str, healthy: bool | None = None) -> BootReport:
    """A report of a log given as text."""
    return read_boot_log(text.encode(), "boot.log", healthy)


def stored(name: str) -> BootReport:
    """A report of one of the whole logs beside this file."""
    return read_boot_log((LOGS / name).read_bytes(), name)


def values(report: BootReport, quantity: Quantity) -> list[float]:
    """All values of a quantity."""
    return [reading.value for reading in report.figure(quantity).readings]


def test_a_whole_boot() -> None:
    """Every quantity of a patched boot, in bytes, tokens and seconds."""
    report = stored("v0.27-patched.log")
    assert report.outcome is Outcome.READY
    assert (report.engine, report.vllm, report.backend, report.device) == (
        "v1",
        "0.27.1",
        "TRITON_ATTN",
        None,
    )
    assert report.lineage is Lineage.COLD
    assert report.captures == (1, 2, 4, 8, 16, 24, 32)
    expected = {
        Quantity.MODEL_LOAD: round(16.14 * GIB),
        Quantity.AVAILABLE_KV: round(4.54 * GIB),
        Quantity.KV_TOKENS: 172_998,
        Quantity.MAX_LEN: 81_920,
        Quantity.MAX_CONCURRENCY: 2.11,
        Quantity.GRAPH_MEMORY: round(0.29 * GIB),
        Quantity.GRAPH_ESTIMATE: round(0.31 * GIB),
        Quantity.WEIGHTS_S: 9.31,
        Quantity.LOAD_S: 12.204411,
        Quantity.COMPILE_S: 19.40,
        Quantity.INIT_S: 22.18,
        Quantity.INIT_COMPILE_S: 19.40,
        Quantity.DRAFTED: 7,
        Quantity.DRAFTS_ASKED: 11,
    }
    assert {quantity: values(report, quantity) for quantity in expected} == {
        quantity: [value] for quantity, value in expected.items()
    }


def test_scratch_lines_with_plans() -> None:
    """Bytes come from the recomputed plan on the line; adoptions of profiling builders count too."""
    report = stored("v0.27-patched.log")
    loaded = report.scratch_of(ScratchEvent.LOADED)
    assert [(line.heads_q, line.bytes, line.capacity) for line in loaded] == [
        (24, 256 * 396_288, 256),
        (32, 256 * 528_384, 256),
    ]
    assert sum(line.bytes or 0 for line in loaded) == int(225.75 * MIB)
    assert len(report.scratch_of(ScratchEvent.ADOPTED)) == 8
    assert not report.scratch_of(ScratchEvent.LATE)
    assert {line.problem for line in report.scratch} == {None}


def test_older_text_form() -> None:
    """Without a plan the printed size is taken, with its resolution; words alone say what happened."""
    report = stored("v0.33-warm-older-text.log")
    loaded = report.scratch_of(ScratchEvent.LOADED)
    assert [line.bytes for line in loaded] == [round(24.19 * MIB), round(32.25 * MIB)]
    assert {line.resolution_bytes for line in loaded} == {round(0.01 * MIB)}
    assert {line.capacity for line in loaded} == {64}
    assert len(report.scratch_of(ScratchEvent.ADOPTED)) == 3
    (late,) = report.scratch_of(ScratchEvent.LATE)
    assert (late.bytes, late.line) == (round(32.25 * MIB), 11)


def test_older_line_that_names_both() -> None:
    """An adoption that also says where the set came from is one adoption, not an allocation."""
    report = read("int4 scratch: adopted by the metadata builder (allocated at model load, 24.19 MiB)\n")
    assert [line.event for line in report.scratch] == [ScratchEvent.ADOPTED]


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        ('{"capacity": 64, "row_by', "its plan is cut or damaged"),
        ('{"capacity": 64}', "its plan lacks max_num_batched_tokens"),
    ],
)
def test_damaged_plan(plan: str, problem: str) -> None:
    """A plan that is cut or incomplete gives no bytes and says why."""
    (line,) = read(f"INFO int4 mq3d scratch: adopted by the metadata builder {plan}\n").scratch
    assert line.bytes is None
    assert line.problem is not None
    assert line.problem.startswith(problem)


def test_plan_that_does_not_follow_from_its_inputs() -> None:
    """A line whose total is not what its inputs give is told apart from a sound one."""
    text = (LOGS / "v0.27-patched.log").read_text().replace('"capacity": 256', '"capacity": 8')
    assert all("its inputs give" in (line.problem or "") for line in read(text).scratch)


def test_ranks_stay_apart() -> None:
    """Each rank has its own reading; the smallest budget binds, and loading adds up."""
    report = stored("v0.10-two-ranks.log")
    kv = report.figure(Quantity.AVAILABLE_KV)
    assert (kv.of("TP0"), kv.of("TP1")) == (round(11.27 * GIB), round(11.31 * GIB))
    assert kv.smallest is not None
    assert kv.smallest.source.rank == "TP0"
    assert report.figure(Quantity.MODEL_LOAD).total == 2 * round(7.8123 * GIB)
    assert report.backend == "Flash Attention"


def test_stages_stay_apart() -> None:
    """Two engines that share a log keep their own numbers."""
    report = read(
        "(Worker pid=9) [Stage-1] INFO 03-02 04:00:01 [base.py:80] "
        "Available KV cache memory: 12.50 GiB (process-scoped)\n"
        "(EngineCore_DP0 pid=8) [Stage-0] INFO 03-02 04:00:02 [gpu_worker.py:350] "
        "Available KV cache memory: 40.00 GiB\n"
    )
    kv = report.figure(Quantity.AVAILABLE_KV)
    assert (kv.of("Stage-1"), kv.of("Stage-0")) == (int(12.5 * GIB), 40 * GIB)


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[0;36m(EngineCore pid=5)\x1b[0;0m INFO 01-02 03:04:05 [gpu_worker.py:5] {}",
        "^[[0;36m(EngineCore pid=5)^[[0;0m INFO 01-02 03:04:05 [gpu_worker.py:5] {}",
        "ESC[1;36m(EngineCore pid=5)ESC[0;0m INFO 01-02 03:04:05 [gpu_worker.py:5] {}",
        "[1;36m(EngineCore pid=5) [0;0m INFO 01-02 03:04:05 [gpu_worker.py:5] {}",
        "#033[1;36m(EngineCore pid=5)#033[0;0m INFO 01-02 03:04:05 [gpu_worker.py:5] {}",
        "авг 02 03:04:05 box python3[77]: (EngineCore pid=5) INFO 01-02 03:04:05 [gpu_worker.py:5] {}",
        "vllm-1  | (EngineCore pid=5) INFO 01-02 03:04:05 [gpu_worker.py:5] {}",
        "2026-01-02T03:04:05,678 [INFO ] W-1-stdout LOG - (EngineCore pid=5) INFO 01-02 03:04:05 w.py:5] {}",
        "(APIServer pid=1) (EngineCore pid=5) INFO vllm.v1 01-02 03:04:05 gpu_worker.py:5] {}",
        "Load: 50%|#####     |\rLoad: 100%|##########|\r(EngineCore pid=5) INFO 01-02 03:04:05 [w.py:5] {}",
        "(Worker pid=6) INFO 01-02 03:04:05 [x.py:1] done(EngineCore pid=5) INFO 01-02 03:04:05 [w.py:5] {}",
    ],
)
def test_prefixes_and_colours(line: str) -> None:
    """Whatever stands before a line, its number is found once and belongs to the innermost process."""
    (reading,) = (
        read(line.format("Available KV cache memory: 4.25 GiB") + "\n").figure(Quantity.AVAILABLE_KV).readings
    )
    assert reading.value == int(4.25 * GIB)
    assert (reading.source.process, reading.source.pid) == ("EngineCore", 5)


def test_number_cut_by_a_wrap() -> None:
    """A terminal that broke a line inside a number does not change the number."""
    text = "(EngineCore pid=5) INFO 01-02 03:04:05 [k.py:5] GPU KV cache size: 207,8\n42 tokens\n"
    assert values(read(text), Quantity.KV_TOKENS) == [207_842]


@pytest.mark.parametrize(
    "line",
    [
        f"GPU KV cache size: {'9' * 5000} tokens",
        "GPU KV cache size: 12.5 tokens",
        f"Available KV cache memory: {'9' * 400} GiB",
        f"# GPU blocks: {'9' * 5000}",
        f"Overriding num_gpu_blocks=900 with num_gpu_blocks_override={'9' * 5000}",
    ],
)
def test_damaged_number_is_no_number(line: str) -> None:
    """Digits without an end, or a fraction where things are counted, give None and no crash."""
    assert not any(figure.readings for figure in read(line + "\n").figures.values())


def test_damaged_scratch_line_says_no_size() -> None:
    """The line is still seen; its numbers are not."""
    digits = "9" * 5000
    (found,) = read(f"int4 scratch {digits} MiB allocated at model load, declares {digits}\n").scratch
    assert (found.event, found.bytes, found.capacity) == (ScratchEvent.LOADED, None, None)
    (found,) = read("int4 scratch allocated at model load " + '{"a": ' * 50_000 + "\n").scratch
    assert (found.bytes, found.problem) == (None, "its plan is cut or damaged")


@pytest.mark.parametrize("served", ["Infinity", "1e999", "NaN", "null", "[" * 50_000])
def test_damaged_end_mark_is_none(served: str) -> None:
    """A log that ends in it counts as cut."""
    assert read(f'x\n{END_MARK}{{"lines": 1, "healthy": true, "served": {served}}}\n').end is None


@pytest.mark.parametrize(
    ("listed", "captures"),
    [("1, 2, 16", (1, 2, 16)), ("1, 2, 1\n6", (1, 2, 16)), ("1,\n2", (1, 2)), ("1 2, 3", None), ("", ())],
)
def test_captures_across_a_wrap(listed: str, captures: tuple[int, ...] | None) -> None:
    """A terminal breaks the configuration line anywhere; what is no list of numbers is unknown."""
    assert read(f"cudagraph_capture_sizes: [{listed}]\n").captures == captures


def test_unfinished_number_is_no_number() -> None:
    """A log that ends inside a number gives None and a reason, not the digits so far."""
    report = read("(EngineCore pid=5) INFO 01-02 03:04:05 [k.py:5] GPU KV cache size: 207,8")
    assert values(report, Quantity.KV_TOKENS) == []
    assert report.figure(Quantity.KV_TOKENS).reason == "boot.log: no line of 1 says KV cache tokens"


@pytest.mark.parametrize(
    ("line", "quantity", "value"),
    [
        ("Loading model weights took 3.5000 GB", Quantity.MODEL_LOAD, int(3.5 * GIB)),
        ("Model loading took 3.5 GiB memory and 1679.80 seconds", Quantity.LOAD_S, 1679.8),
        ("Available KV cache memory: -2.50 GiB", Quantity.AVAILABLE_KV, int(-2.5 * GIB)),
        ("the rest of the memory reserved for KV Cache is 61.50GiB.", Quantity.AVAILABLE_KV, int(61.5 * GIB)),
        (
            "free memory 31.16 GiB, reserved 4.25 GiB memory for KV Cache as",
            Quantity.RESERVED_KV,
            4.25 * GIB,
        ),
        ("# cuda blocks: 36184, # CPU blocks: 2340", Quantity.GPU_BLOCKS, 36_184),
        ("# GPU blocks: 1381", Quantity.GPU_BLOCKS, 1381),
        ("Overriding num_gpu_blocks=900 with num_gpu_blocks_override=512", Quantity.BLOCK_OVERRIDE, 512),
        ("Maximum concurrency for 8192 tokens per request: 70.67x", Quantity.MAX_CONCURRENCY, 70.67),
        ("init engine (profile, create kv cache, warmup model) took 5.13 seconds", Quantity.INIT_S, 5.13),
        ("init engine (profile) took 38.07 s (compilation: 17.73 s)", Quantity.INIT_COMPILE_S, 17.73),
        ("torch.compile takes 54.73 s in total", Quantity.COMPILE_S, 54.73),
        ("Actual usage is 74.25 GiB for weight, 5.58 GiB for peak activation", Quantity.WEIGHTS, 74.25 * GIB),
        ("Actual usage is 1.0 GiB for weight, 5.5 GiB for peak activation", Quantity.ACTIVATION, 5.5 * GIB),
        ("(4.25 GiB KV cache is needed, which is larger", Quantity.NEEDED_KV, 4.25 * GIB),
        ("Estimated CUDA graph memory: 0.75 GiB total", Quantity.GRAPH_ESTIMATE, 0.75 * GIB),
    ],
)
def test_wordings(line: str, quantity: Quantity, value: float) -> None:
    """Each wording that vLLM has had gives the same quantity."""
    assert values(read(f"INFO 01-02 03:04:05 [x.py:1] {line}\n"), quantity) == [value]


def test_blocks_are_not_tokens() -> None:
    """A boot that prints blocks and no tokens has no token count: the block size is not known."""
    report = read("INFO 01-02 03:04:05 [executor_base.py:113] # cuda blocks: 36184, # CPU blocks: 2340\n")
    assert values(report, Quantity.KV_TOKENS) == []
    assert report.engine == "v0"


def test_override_of_the_dry_run_is_no_override() -> None:
    """The estimate of graph memory overrides zero blocks for a moment; that is not the pool."""
    report = stored("v0.27-patched.log")
    assert values(report, Quantity.BLOCK_OVERRIDE) == []


def test_exact_bytes_replace_a_rounded_line() -> None:
    """A process that first prints GiB and later the bytes has one budget, to the byte."""
    report = read(
        "(Worker_TP1 pid=3) INFO 01-02 03:04:05 [g.py:1] Available KV cache memory: 44.59 GiB\n"
        "(Worker_TP1 pid=3) INFO 01-02 03:04:09 Current kv cache memory in use is 47878721024 bytes.\n"
    )
    (reading,) = report.figure(Quantity.AVAILABLE_KV).readings
    assert (reading.value, reading.resolution) == (47_878_721_024, 1)


def test_skipped_profile_says_so() -> None:
    """Where the cache was given in bytes there is no budget to read, and the reason names that."""
    report = read(
        "INFO 01-02 03:04:05 [g.py:1] Initial free memory 31.16 GiB, reserved 4.25 GiB memory for KV Cache "
        "as specified by kv_cache_memory_bytes config and skipped memory profiling.\n"
    )
    assert "the memory profile was skipped" in (report.figure(Quantity.AVAILABLE_KV).reason or "")


def test_cpu_worker_is_no_gpu() -> None:
    """The words `GPU KV cache size` from a CPU worker do not make a GPU run."""
    report = read("INFO 09-06 20:23:33 [cpu_worker.py:255] Explicitly set (1.0/31.28) GiB for KV cache.\n")
    assert report.device == "cpu"


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.74 GiB. GPU 1 has 605.88 MiB free."


def test_out_of_memory_once_per_boot() -> None:
    """Traces of several ranks are one failure; the sizes in them are no results."""
    report = read(
        f"(VllmWorker rank=1 pid=78) ERROR 03-19 07:27:53 [m.py:375] {OOM}\n"
        f"(VllmWorker rank=0 pid=61) ERROR 03-19 07:27:53 [m.py:375] {OOM}\n"
    )
    assert (report.outcome, report.cause) == (Outcome.FAILED, "out of memory")
    assert report.oom_ranks == ("0", "1")
    assert all(not figure.readings for figure in report.figures.values())


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["ValueError: No available memory for the cache blocks. Try"], "no memory for cache blocks"),
        (
            [
                "ValueError: (4.26 GiB KV cache is needed, which is larger than the availa",
                "ble KV cache memory (4.25 GiB).",
            ],
            "KV cache too small",
        ),
        (["assert scheduler_block_size % hash_block_size == 0 and all("], "block divisibility"),
        (
            ["AssertionError: scratch rows {'output': 8} do not carry the declared capacity"],
            "scratch assert",
        ),
        (
            ["RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 requests"],
            "out of memory",
        ),
    ],
)
def test_causes(lines: list[str], cause: str) -> None:
    """A failed boot names its cause, also when a terminal cut the sentence."""
    text = "\n".join(
        ["(EngineCore pid=3) " + lines[0], *lines[1:], "(EngineCore pid=3) EngineCore failed to start."]
    )
    report = read(text)
    assert (report.outcome, report.cause) == (Outcome.FAILED, cause)


def test_late_death() -> None:
    """An engine that dies after all memory lines has failed, even if a start was reported before."""
    text = (LOGS / "v0.27-patched.log").read_text()
    died = (
        text
        + "(EngineCore pid=412) ERROR 10-05 09:15:00 [core.py:1351] EngineCore encountered a fatal error.\n"
    )
    assert read(died).outcome is Outcome.FAILED
    assert read(died, healthy=True).outcome is Outcome.FAILED


def test_health_decides_where_it_was_asked() -> None:
    """Memory lines alone are no success; an answered health check is, a refused one is not."""
    text = "(EngineCore pid=7) INFO 09-02 08:00:12 [g.py:625] Available KV cache memory: 4.9 GiB\n"
    assert read(text).outcome is Outcome.UNFINISHED
    assert read(text, healthy=True).outcome is Outcome.READY
    started = text + "INFO:     Application startup complete.\n"
    assert read(started).outcome is Outcome.READY
    assert read(started, healthy=False).outcome is Outcome.UNFINISHED


def test_a_server_that_went_by_itself_has_failed() -> None:
    """What the harness saw end by itself has failed, with the last exception where no cause has a name."""
    text = "Traceback\nValueError: first\n  File x\nModuleNotFoundError: No module named 'x'\nerror: bye\n"

    def ended(log: str) -> tuple[Outcome, str | None]:
        report = read(log + closing_line(log.encode(), healthy=False, served=0, exited=True).decode())
        return report.outcome, report.cause

    assert ended(text) == (Outcome.FAILED, "ModuleNotFoundError: No module named 'x'")
    ranked = "[rank0]: ValueError: no\n[rank0]:[W1130 04:47:11.45 P.cpp:1] Warning: x\n"
    assert ended(ranked) == (Outcome.FAILED, "ValueError: no")
    assert ended("WARNING 11-30 04:43:03 [i.py:4] ImportError: _C\n")[1] == (
        "the engine died without naming a cause"
    )
    assert ended("") == (Outcome.FAILED, "the engine died without naming a cause")
    assert ended("KeyError: " + "x" * 300) == (Outcome.FAILED, ("KeyError: " + "x" * 300)[:200])
    still = read(text + closing_line(text.encode(), healthy=False, served=0).decode())
    assert still.outcome is Outcome.UNFINISHED


@pytest.mark.parametrize(
    ("words", "stage"),
    [
        (None, None),
        ("Loading weights took", "model loading"),
        ("Model loading took", "memory profile"),
        ("Available KV cache memory", "cache blocks"),
        ("Graph capturing finished", "warm-up"),
    ],
)
def test_how_far_a_boot_came(words: str | None, stage: str | None) -> None:
    """The furthest step that a log shows, up to the line with these words."""
    text = (LOGS / "v0.27-patched.log").read_text()
    upto = text[: text.index(words) + 40] if words else ""
    assert read(upto).stage == stage


def test_progress_of_a_capture_is_a_stage() -> None:
    """A capture that broke off shows only its progress, which comes with carriage returns."""
    text = "Available KV cache memory: 4.9 GiB\n\rCapturing CUDA graphs (decode, FULL):   0%|\rCapturing"
    assert read(text).stage == "graph capture"


def test_lineage() -> None:
    """One line of loaded code makes a boot warm; that compiling took time proves nothing."""
    assert stored("v0.33-warm-older-text.log").lineage is Lineage.WARM
    assert stored("v0.33-warm-older-text.log").warm_lines == (2,)
    assert read("INFO torch.compile took 1.61 s in total\n").lineage is Lineage.UNKNOWN
    assert read("INFO vLLM's torch.compile cache is disabled.\n").lineage is Lineage.DISABLED
    mixed = (
        "Compiling a graph for compile range (1, 8) takes 2.0 s\nDirectly load the compiled graph(s) for x\n"
    )
    assert read(mixed).lineage is Lineage.WARM
    assert read("INFO config: model='m', enforce_eager=True, x\n").lineage is Lineage.EAGER


@pytest.mark.parametrize("path", THREE, ids=lambda path: path.stem)
def test_cut_log_is_never_whole(path: Path) -> None:
    """A closed log counts; cut at any line boundary, or with a line lost, it does not."""
    log = path.read_bytes()
    closed = log + closing_line(log, healthy=True, served=1)
    assert read_boot_log(closed, path.name).whole
    lines = closed.splitlines(keepends=True)
    assert len(THREE) == 3
    for cut in range(len(lines)):
        assert not read_boot_log(b"".join(lines[:cut]), path.name).whole
        assert not read_boot_log(b"".join(lines[:cut] + lines[cut + 1 :]), path.name).whole


def test_closed_log_of_a_boot_that_answered_nothing() -> None:
    """A boot that served no request, or was not healthy, is not whole however complete its log is."""
    log = (LOGS / "v0.27-patched.log").read_bytes()
    for healthy, served in ((True, 0), (False, 1)):
        assert not read_boot_log(log + closing_line(log, healthy=healthy, served=served), "x").whole


def recorded(name: str) -> bytes:
    """A log that a real boot left, compressed."""
    return lzma.decompress((LOGS / "recorded" / f"{name}.log.xz").read_bytes())


def test_recorded_boot() -> None:
    """A boot of the dummy on an H200: everything that its log says, and nothing cut from it passes."""
    log = recorded("h200-patched-32")
    report = read_boot_log(log, "x")
    assert report.whole
    assert (report.engine, report.vllm, report.backend, report.stage) == (
        "v1",
        "0.27.1",
        "TRITON_ATTN",
        "warm-up",
    )
    assert (report.lineage, report.captures) == (Lineage.COLD, (1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64))
    assert values(report, Quantity.AVAILABLE_KV) == [round(68.25 * GIB)]
    assert values(report, Quantity.KV_TOKENS) == [6_939_632]
    loaded = report.scratch_of(ScratchEvent.LOADED)
    assert sum(line.bytes or 0 for line in loaded) == 473_432_064
    assert [len(report.scratch_of(event)) for event in (ScratchEvent.ADOPTED, ScratchEvent.LATE)] == [6, 0]
    lines = log.splitlines(keepends=True)
    assert not any(read_boot_log(b"".join(lines[:cut]), "x").whole for cut in range(len(lines)))


@pytest.mark.parametrize(
    ("name", "cause"),
    [("h200-out-of-memory", "out of memory"), ("h200-sequence-units", "scratch assert")],
)
def test_recorded_failures(name: str, cause: str) -> None:
    """Two boots that failed on an H200, after the memory profile, each with its cause."""
    report = read_boot_log(recorded(name), "x")
    assert (report.outcome, report.cause, report.stage) == (Outcome.FAILED, cause, "cache blocks")
    assert not report.whole
