"""Facts of a boot: what the rules get when a log is whole, cut, or says less."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci.engine.bootlog import BootReport, closing_line, read_boot_log
from ci.engine.cacheinfo import read_cache_info
from ci.engine.facts import BootContext, facts_of
from ci.engine.units import GIB, MIB
from ci.gate.membudget import Band, judge_row
from ci.gate.verdict import Verdict
from ci.results.boot import Measured

LOGS = Path(__file__).parent / "logs"
THREE = sorted(LOGS.glob("*.log"))
LOG = (LOGS / "v0.27-patched.log").read_bytes()
CONTEXT = BootContext("patched", "rtx4090", "wsl2", "s1", 16, expected_adoptions=8)


def closed(log: bytes = LOG) -> BootReport:
    """The report of a log that the harness closed."""
    return read_boot_log(log + closing_line(log, healthy=True, served=1), "boot.log")


def test_a_whole_boot() -> None:
    """Sizes come with their print resolution, the scratch exactly, and the block size is not guessed."""
    facts = facts_of(closed(), CONTEXT)
    assert (facts.problem, facts.lineage) == (None, "cold")
    assert facts.loaded == Measured(int(225.75 * MIB), 2)
    assert facts.available_kv == Measured(round(4.54 * GIB), round(GIB / 100))
    assert (facts.kv_tokens.value, facts.adopted_lines, facts.late_lines) == (172_998, 8, 0)
    assert facts.block_tokens == Measured(None, reason="tokens per block: not in the log, ask /metrics")


def test_exact_numbers_win() -> None:
    """The engine's own bytes and the metric's block size replace what the log rounds or lacks."""
    (cache,) = read_cache_info('vllm:cache_config_info{block_size="848",num_gpu_blocks="204"} 1.0\n')
    facts = facts_of(closed(), replace(CONTEXT, exact_kv_bytes=4_874_000_001), cache)
    assert facts.available_kv == Measured(4_874_000_001)
    assert facts.block_tokens == Measured(848)


def test_cut_log_has_a_problem() -> None:
    """Without the end mark the facts carry a problem, although every number is there."""
    facts = facts_of(read_boot_log(LOG, "boot.log"), CONTEXT)
    assert facts.kv_tokens.value == 172_998
    assert facts.problem == "ready; its log was not closed by the harness, so it may be cut"


@pytest.mark.parametrize("path", THREE, ids=lambda path: path.stem)
def test_cut_log_is_never_a_pass(path: Path) -> None:
    """Cut at any line boundary, a boot cannot be compared, whatever numbers its log still has."""
    log = path.read_bytes()
    lines = (log + closing_line(log, healthy=True, served=1)).splitlines(keepends=True)
    assert len(THREE) == 3
    for cut in range(len(lines)):
        facts = facts_of(read_boot_log(b"".join(lines[:cut]), path.name), CONTEXT)
        assert facts.problem
        row = judge_row([facts, facts], facts, Band(-(1 << 40), 1 << 40, "everything"))
        assert row.verdict is Verdict.INVALID


def test_failed_boot_names_its_cause() -> None:
    """A boot that ran out of memory is no boot to judge."""
    log = (
        LOG
        + b"(EngineCore pid=412) torch.OutOfMemoryError: CUDA out of memory.\nEngineCore failed to start.\n"
    )
    assert facts_of(closed(log), CONTEXT).problem == "failed: out of memory"


def test_plan_that_contradicts_itself() -> None:
    """A scratch line whose plan does not follow from its inputs spoils the boot, with its line number."""
    facts = facts_of(closed(LOG.replace(b'"row_bytes": 396288', b'"row_bytes": 396289')), CONTEXT)
    assert facts.problem is not None
    assert facts.problem.startswith("line 4: its plan says")


def test_stock_loads_nothing() -> None:
    """No line at model load is zero bytes; a line that is cut is unknown."""
    assert facts_of(closed(b"Application startup complete\n"), CONTEXT).loaded == Measured(0)
    cut = closed(b"scratch: 1 MiB allocated at model load {\nApplication startup complete\n")
    assert facts_of(cut, CONTEXT).loaded.value is None
