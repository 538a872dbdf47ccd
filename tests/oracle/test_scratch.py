"""No kernel writes behind its scratch, on a card that would take more segments than it holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from armlib.attention import Batch, run_leg
from armlib.builder import make_builder, scratch_rows
from armlib.production import owner_of, packed_launcher
from bench import make_bench, relative_error
from cases import DEVICE, NARROW, config_for
from law import EMULATION, as_on_a_card

CASE = f"law-{EMULATION}tight-scratch"
BATCH = Batch((16, 16), history=1100)
"""As many sequences and tokens as the scratch is planned for: no row is left over. 64 segments have keys."""
CROWDED = 1 << 20
"""Multiprocessors of a card that no grid fills, and bytes of each."""
GUARD = 1 << 20
"""fp32 numbers behind each buffer: more than twice the segments reach beyond it."""
UNTOUCHED = -1.0


class Guarded:
    """A builder whose scratch buffers have numbers behind them that nobody may touch."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.guards: list[torch.Tensor] = []

    def build(self, *words: Any) -> Any:
        """The builder's metadata, its buffers moved in front of a guard."""
        metadata = self.builder.build(*words)
        for name, buffer in list(vars(metadata).items()):
            if isinstance(buffer, torch.Tensor) and buffer.dtype == torch.float32:
                whole = torch.full((buffer.numel() + GUARD,), UNTOUCHED, device=buffer.device)
                setattr(metadata, name, whole[: buffer.numel()].view(buffer.shape))
                self.guards.append(whole[buffer.numel() :])
        return metadata

    def touched(self) -> int:
        """Numbers behind the buffers that were written."""
        return sum(int((guard != UNTOUCHED).sum()) for guard in self.guards)


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Guarded:
    """A guarded builder on a card that would run any number of segments at a time."""
    packed = packed_launcher()
    if packed is not None:
        card = packed.__globals__["Card"](CROWDED, CROWDED)
        monkeypatch.setitem(packed.__globals__, "card_of", lambda _device: card)
    return Guarded(make_builder(config_for(NARROW, max_num_seqs=len(BATCH.q_lens)), DEVICE))


def test_tight_scratch(measure: Any, reached: Any, builder: Guarded) -> None:
    """The result is right and the guards are whole, whatever the card could run at a time."""
    reached(owner_of("_launch_packed_attn"), "_launch_packed_attn")
    bench = make_bench(NARROW, BATCH, own_write=False)
    with as_on_a_card():
        leg = run_leg(bench.layer, builder, BATCH, bench.query(BATCH, seed=7), flag=True)
    (rows,) = set(scratch_rows(builder.builder).values())
    measure(CASE, "rows", rows, unit="tokens")
    measure(CASE, "touched", builder.touched(), unit="numbers")
    measure(CASE, "relative_error_flag1", relative_error(leg, bench, BATCH), unit="1")
    assert builder.touched() == 0


def test_twice_the_segments_are_seen(builder: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed launch that takes twice the segments that the scratch holds writes into the guards."""
    packed = packed_launcher()
    if packed is None:  # the general kernel's segments are the scratch's own
        return
    launch = packed.__globals__["packed_launch"]

    def doubled(**words: Any) -> Any:
        one = launch(**words)
        return replace(one, segments=2 * one.segments)

    monkeypatch.setitem(packed.__globals__, "packed_launch", doubled)
    bench = make_bench(NARROW, BATCH, own_write=False)
    run_leg(bench.layer, builder, BATCH, bench.query(BATCH, seed=7), flag=True)
    assert builder.touched() > 0
