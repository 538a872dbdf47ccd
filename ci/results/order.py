"""The canonical order of records: natural, so that ``b2`` stands before ``b10``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

from ci.results.records import BaselineRecord, Record

_DIGITS = re.compile(r"([0-9]{1,18})")
Order: TypeAlias = tuple[tuple[str | int, ...], str, tuple[str | int, ...], str]


def record_order(record: Record | BaselineRecord) -> Order:
    """Return the sort key of a record: natural order (``b2`` before ``b10``), ties by spelling."""
    return key_order(record.case, record.metric)


def key_order(case: str, metric: str) -> Order:
    """Return the sort key of a case and metric."""
    return natural(case), case, natural(metric), metric


@lru_cache(maxsize=1 << 14)
def natural(name: str) -> tuple[str | int, ...]:
    """Split ``name`` into texts and numbers, alternating, so that two of them compare."""
    return tuple(int(part) if index % 2 else part for index, part in enumerate(_DIGITS.split(name)))
