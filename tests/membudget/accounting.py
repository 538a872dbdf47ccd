"""What a boot allocated, adopted and said, as plain values that travel between processes."""

from __future__ import annotations

import dataclasses
import json
import logging
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

BACKEND_LOGGER = "vllm.v1.attention.backends.triton_attn"


@dataclass
class Allocation:
    """One tensor with storage of its own."""

    phase: str
    shape: list[int]
    dtype: str
    bytes: int
    alive: bool = True
    """Whether it outlived the boot."""


@dataclass
class Line:
    """One line that the backend logged."""

    phase: str
    level: str
    text: str
    plan: dict[str, Any] | None
    """The JSON object on the line."""


@dataclass
class BuilderSeen:
    """One metadata builder of the served engine."""

    heads_q: int
    scratch: int
    """Which set it holds: builders with the same number share one."""
    rows: int
    declared: int | None
    """Query tokens that its boot line says its set holds; None in an arm that does not say so."""


@dataclass
class BootAccount:
    """Everything that the rules look at."""

    arm: str
    max_num_seqs: int
    ubatching: bool
    order: list[str]
    impls: int = 0
    plans: dict[int, dict[str, int]] = field(default_factory=dict)
    """By query heads: capacity, row_bytes, total_bytes; empty in an arm without a plan."""
    counted_bytes: int = 0
    """Alive when the memory profile closed: what the KV budget leaves room for."""
    allocations: list[Allocation] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    builders: list[BuilderSeen] = field(default_factory=list)

    def bytes_in(self, *phases: str) -> int:
        """Bytes allocated in these phases."""
        return sum(one.bytes for one in self.allocations if one.phase in phases)

    def sets_in(self, *phases: str) -> int:
        """Scratch sets allocated in these phases: each has one buffer with four dimensions."""
        return sum(len(one.shape) == 4 for one in self.allocations if one.phase in phases)

    def lines_with(self, words: str, *phases: str) -> list[Line]:
        """Lines that contain `words`, of these phases or of all."""
        return [line for line in self.lines if words in line.text and (not phases or line.phase in phases)]


def to_json(account: BootAccount) -> str:
    """One line."""
    return json.dumps(dataclasses.asdict(account))


def from_json(text: str) -> BootAccount:
    """What `to_json` wrote."""
    raw = json.loads(text)
    raw["allocations"] = [Allocation(**one) for one in raw["allocations"]]
    raw["lines"] = [Line(**one) for one in raw["lines"]]
    raw["builders"] = [BuilderSeen(**one) for one in raw["builders"]]
    raw["plans"] = {int(heads): plan for heads, plan in raw["plans"].items()}
    return BootAccount(**raw)


class Ledger(TorchDispatchMode):
    """Writes down every tensor that an operation returns with a storage that none of its inputs has."""

    def __init__(self) -> None:
        super().__init__()
        self.phase = "before"
        self.entries: list[tuple[Allocation, weakref.ref[torch.Tensor]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        known = {
            storage_id(one) for one in tree_leaves((args, kwargs or {})) if isinstance(one, torch.Tensor)
        }
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and storage_id(tensor) not in known and tensor.numel():
                self.note(tensor)
        return result

    def note(self, tensor: torch.Tensor) -> None:
        """One new storage."""
        storage = tensor.untyped_storage()
        entry = Allocation(self.phase, list(tensor.shape), str(tensor.dtype), storage.nbytes())
        self.entries.append((entry, weakref.ref(tensor)))

    def alive_bytes(self) -> int:
        """Bytes of what is still held."""
        return sum(entry.bytes for entry, held in self.entries if held() is not None)

    def closed(self) -> list[Allocation]:
        """Every allocation, with whether it is still held."""
        for entry, held in self.entries:
            entry.alive = held() is not None
        return [entry for entry, _ in self.entries]


def storage_id(tensor: torch.Tensor) -> int:
    """Identity of the memory behind a tensor, also on the meta device."""
    return int(tensor.untyped_storage()._cdata)


@contextmanager
def backend_lines(ledger: Ledger) -> Iterator[list[Line]]:
    """Collect what the backend logs, with the phase in which it was logged."""
    lines: list[Line] = []
    handler = logging.Handler()

    def emit(record: logging.LogRecord) -> None:
        text = record.getMessage()
        start = text.find("{")
        plan = json.loads(text[start:]) if start >= 0 else None
        lines.append(Line(ledger.phase, record.levelname, text, plan))

    handler.emit = emit  # type: ignore[method-assign]
    logger = logging.getLogger(BACKEND_LOGGER)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
