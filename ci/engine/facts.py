"""From the report of a boot to the facts that the memory rules judge."""

from __future__ import annotations

from dataclasses import dataclass

from ci.engine.bootlog import BootReport, Figure, Lineage
from ci.engine.cacheinfo import CacheInfo
from ci.engine.patterns import Quantity
from ci.engine.scratchlines import ScratchEvent, ScratchLine
from ci.results.boot import BootFacts, Measured

LINEAGES = {
    Lineage.COLD: "cold",
    Lineage.WARM: "warm",
    Lineage.DISABLED: "disabled",
    Lineage.EAGER: "eager",
    Lineage.UNKNOWN: "unknown",
}


@dataclass(frozen=True)
class BootContext:
    """What the harness knows of a boot beside its log; memory in bytes, None if unreadable."""

    arm: str
    lane: str
    environment: str
    session: str
    max_num_seqs: int
    expected_adoptions: int
    ubatching: bool = False
    exact_kv_bytes: int | None = None
    """The engine's own `available_kv_cache_memory_bytes`, where it ran in this process."""
    exact_load_bytes: int | None = None
    block_tokens: int | None = None
    free_after_boot: int | None = None
    resident: int | None = None


def facts_of(report: BootReport, context: BootContext, cache: CacheInfo | None = None) -> BootFacts:
    """The facts of one boot; exact numbers of the engine replace printed ones."""
    block = context.block_tokens or (cache.block_tokens if cache else None)
    return BootFacts(
        name=report.name,
        arm=context.arm,
        lane=context.lane,
        environment=context.environment,
        session=context.session,
        max_num_seqs=context.max_num_seqs,
        problem=problem_of(report),
        lineage=LINEAGES[report.lineage],
        ubatching=context.ubatching,
        loaded=loaded(report),
        adopted_lines=len(report.scratch_of(ScratchEvent.ADOPTED)),
        late_lines=len(report.scratch_of(ScratchEvent.LATE)),
        expected_adoptions=context.expected_adoptions,
        model_load=exact_or(context.exact_load_bytes, report.figure(Quantity.MODEL_LOAD)),
        available_kv=exact_or(context.exact_kv_bytes, report.figure(Quantity.AVAILABLE_KV)),
        kv_tokens=exact_or(None, report.figure(Quantity.KV_TOKENS)),
        block_tokens=known(block, "tokens per block: not in the log, ask /metrics"),
        free_after_boot=known(context.free_after_boot, "free memory could not be read"),
        resident=known(context.resident, "resident memory could not be read"),
    )


def problem_of(report: BootReport) -> str | None:
    """Why this is no boot to judge."""
    if report.device == "cpu":
        return "a CPU worker wrote it"
    if report.whole:
        damaged = next((line for line in report.scratch if line.problem), None)
        return f"line {damaged.line}: {damaged.problem}" if damaged else None
    if report.cause:
        return f"{report.outcome.value}: {report.cause}"
    if report.end is None:
        return f"{report.outcome.value}; its log was not closed by the harness, so it may be cut"
    return f"{report.outcome.value}; healthy: {report.end.healthy}, requests served: {report.end.served}"


def loaded(report: BootReport) -> Measured:
    """Scratch at model load over all its lines; none at all is zero, a line without bytes is unknown."""
    lines: tuple[ScratchLine, ...] = report.scratch_of(ScratchEvent.LOADED)
    unread = next((line for line in lines if line.bytes is None), None)
    if unread is not None:
        return Measured(None, reason=f"{report.name}: line {unread.line}: {unread.problem or 'says no size'}")
    return Measured(sum(line.bytes or 0 for line in lines), sum(line.resolution_bytes for line in lines) or 1)


def exact_or(exact: int | None, figure: Figure) -> Measured:
    """The engine's own number, else the smallest reading: the rank that binds."""
    if exact is not None:
        return Measured(exact)
    smallest = figure.smallest
    if smallest is None:
        return Measured(None, reason=figure.reason)
    return Measured(int(smallest.value), max(1, round(smallest.resolution)))


def known(value: int | None, reason: str) -> Measured:
    """A number, or the reason why there is none."""
    return Measured(value) if value is not None else Measured(None, reason=reason)
