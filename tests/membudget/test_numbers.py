"""Bytes, sets and adoptions of accounted boots, next to the published figures."""

from __future__ import annotations

from typing import Any

import pytest
from accounting import BootAccount
from armlib.production import owner_of
from boot import LOAD, SERVING, boot
from model import DRAFTER, DRAFTER_LAYERS, TARGET, TARGET_LAYERS, Setting
from rules import ADOPTED, LATE, violations
from siblings import sibling_boots
from vllm.v1.attention.backends.triton_attn import TritonAttentionImpl, TritonAttentionMetadataBuilder

MIB = 2**20
ROW_BYTES = {TARGET.heads_q: 396_288, DRAFTER.heads_q: 528_384}
TOKEN_UNITS_MIB = {1: 28.22, 4: 112.88, 8: 225.75, 16: 451.50, 32: 903.00, 64: 903.00}
"""Published for sizing in tokens, four sets: boot log, arithmetic, and the follow-up's table."""
PATCHED_MIB = {4: 56.44, 8: 112.88, 16: 225.75, 32: 451.50, 64: 451.50}
"""Published for the shared pool, two sets."""
EIGHT_ROWS_MIB = 14.11
TARGET_AND_DRAFTER_ROW = sum(ROW_BYTES.values())


def mib(count: int) -> float:
    """Bytes as the boot line prints them."""
    return round(count / MIB + 1e-9, 2)


def record(measure: Any, case: str, account: BootAccount) -> None:
    """The figures of one boot."""
    measure(case, "bytes_at_load", account.bytes_in(LOAD), unit="bytes")
    measure(case, "bytes_after", account.bytes_in(SERVING), unit="bytes")
    measure(case, "sets_at_load", account.sets_in(LOAD), unit="sets")
    measure(case, "sets_after", account.sets_in(SERVING), unit="sets")
    measure(case, "builders", len(account.builders), unit="builders")
    measure(case, "adopted", len(account.lines_with(ADOPTED, SERVING)), unit="lines")
    measure(case, "late_lines", len(account.lines_with(LATE)), unit="lines")


@pytest.mark.parametrize("seqs", [1, 4, 8, 16, 32, 64])
def test_patched(measure: Any, seqs: int) -> None:
    """Two sets of the planned size are allocated at load, four builders adopt, and nothing comes after."""
    account = boot(Setting(seqs))
    broken = violations(account)
    record(measure, f"seqs-{seqs}", account)
    measure(f"seqs-{seqs}", "violations", len(broken), unit="rules")
    assert not broken, "\n".join(broken)
    assert account.sets_in(LOAD) == 2
    assert mib(account.bytes_in(LOAD)) == PATCHED_MIB.get(seqs, mib(TARGET_AND_DRAFTER_ROW * 16))


def test_rows_and_sets(measure: Any) -> None:
    """A row costs 396,288 B at 24 heads and 528,384 B at 32; 64 rows are 24.19 and 32.25 MiB."""
    account = boot(Setting(4))
    printed = {
        line.plan["num_heads_q"]: line.plan["total_bytes"]
        for line in account.lines
        if line.phase == LOAD and line.plan
    }
    for heads, expected in ((TARGET.heads_q, 24.19), (DRAFTER.heads_q, 32.25)):
        measure(f"heads-{heads}", "row_bytes", account.plans[heads]["row_bytes"], unit="bytes")
        measure(f"heads-{heads}", "set_bytes", printed[heads], unit="bytes")
        assert account.plans[heads]["row_bytes"] == ROW_BYTES[heads]
        assert mib(printed[heads]) == expected


def test_drafter_plans_with_the_targets_geometry(measure: Any) -> None:
    """The drafter's layers have head size 128 and 8 KV heads; its plan has 256 and 4, at load and later."""
    account = boot(Setting(4))
    plans = [line.plan for line in account.lines if line.plan and line.plan["num_heads_q"] == DRAFTER.heads_q]
    assert {line["origin"] for line in plans} == {"model load", "metadata builder"}
    assert {(plan["headdim_padded"], plan["num_heads_kv"]) for plan in plans} == {(256, 4)}
    measure("drafter-plan", "head_size", plans[0]["headdim_padded"], unit="elements")
    measure("drafter-plan", "kv_heads", plans[0]["num_heads_kv"], unit="heads")


def test_production_is_reached(measure: Any, reached: Any) -> None:
    """The arm's Impl, pool and builder allocate: one Impl per layer, one builder per group and pass."""
    counters = [
        reached(TritonAttentionImpl, "__init__"),
        reached(TritonAttentionMetadataBuilder, "__init__"),
        reached(owner_of("mq3d_scratch_acquire"), "mq3d_scratch_acquire"),
    ]
    account = boot(Setting(4))
    impls, builders, acquisitions = (counter.calls for counter in counters)
    measure("reached", "impls", impls, unit="calls")
    measure("reached", "builders", builders, unit="calls")
    measure("reached", "acquisitions", acquisitions, unit="calls")
    assert impls == account.impls == TARGET_LAYERS + DRAFTER_LAYERS
    assert builders == 8
    assert acquisitions == impls + builders


@pytest.mark.parametrize("layers", [1, 12])
def test_sets_do_not_follow_layers(measure: Any, layers: int) -> None:
    """However many layers there are, two sets are allocated, never one per layer."""
    account = boot(Setting(4, drafter_layers=layers))
    measure(f"drafter-layers-{layers}", "sets_at_load", account.sets_in(LOAD), unit="sets")
    measure(f"drafter-layers-{layers}", "bytes_at_load", account.bytes_in(LOAD), unit="bytes")
    assert account.sets_in(LOAD) == 2


def test_token_units(measure: Any) -> None:
    """Without the pool every builder allocates after the profile: four sets, twice the bytes, 0 at load."""
    for account in sibling_boots("token-units", [Setting(seqs) for seqs in TOKEN_UNITS_MIB]):
        record(measure, f"token-units-seqs-{account.max_num_seqs}", account)
        assert account.counted_bytes == 0
        assert account.sets_in(SERVING) == 4
        assert mib(account.bytes_in(SERVING)) == TOKEN_UNITS_MIB[account.max_num_seqs]


def test_eight_rows(measure: Any) -> None:
    """Before that, one sequence with graphs got 8 rows in each of four sets: 14.11 MiB."""
    (account,) = sibling_boots("mq3d", [Setting(1)])
    record(measure, "mq3d-seqs-1", account)
    measure("mq3d-seqs-1", "rows", account.builders[0].rows, unit="rows")
    assert [builder.rows for builder in account.builders] == [8] * 4
    assert mib(account.bytes_in(SERVING)) == EIGHT_ROWS_MIB
