"""Planned, measured and accepted, side by side: one walk over three sorted sequences.

Nothing is looked up, so that a million records need no more memory than ten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from ci.gate.plan import PlannedMetric
from ci.results.jsonl import Records, key_order, natural, record_order
from ci.results.records import BaselineRecord, Record

T = TypeVar("T", PlannedMetric, Record, BaselineRecord)
R = TypeVar("R", Record, BaselineRecord)


class Together(NamedTuple):
    """What plan, run and baseline say about one case and metric; at least one of them says something."""

    case: str
    metric: str
    planned: PlannedMetric | None
    record: Record | None
    accepted: BaselineRecord | None


def merge(
    planned: Iterable[PlannedMetric], records: Iterable[Record], accepted: Iterable[BaselineRecord]
) -> Iterator[Together]:
    """Walk through three sequences in canonical order together."""
    plan, run, base = iter(planned), iter(records), iter(accepted)
    one, two, three = next(plan, None), next(run, None), next(base, None)
    while one is not None or two is not None or three is not None:
        if (
            one is not None
            and two is not None
            and three is not None
            and one.metric == two.metric == three.metric
            and one.case == two.case == three.case
        ):  # the rule, for which nothing has to be ordered
            yield Together(one.case, one.metric, one, two, three)
            one, two, three = next(plan, None), next(run, None), next(base, None)
            continue
        here = _smallest(one, two, three)
        yield here
        if here.planned is not None:
            one = next(plan, None)
        if here.record is not None:
            two = next(run, None)
        if here.accepted is not None:
            three = next(base, None)


def _smallest(one: PlannedMetric | None, two: Record | None, three: BaselineRecord | None) -> Together:
    """Return the first key in order, with the sides that have it."""
    keys = {(item.case, item.metric) for item in (one, two, three) if item is not None}
    first = min(keys, key=lambda key: key_order(*key))
    return Together(
        *first,
        one if one is not None and (one.case, one.metric) == first else None,
        two if two is not None and (two.case, two.metric) == first else None,
        three if three is not None and (three.case, three.metric) == first else None,
    )


def in_order(records: Records[R]) -> Iterable[R]:
    """Return records in canonical order; those that stay in their file are in it already."""
    return sorted(records, key=record_order) if isinstance(records, tuple) else records


def planned_in_order(planned: Iterable[PlannedMetric]) -> Iterator[PlannedMetric]:
    """Yield planned metrics in canonical order, sorted case by case."""
    cases: dict[str, list[PlannedMetric]] = {}
    for one in planned:
        cases.setdefault(one.case, []).append(one)
    for case in sorted(cases, key=lambda name: (natural(name), name)):
        yield from sorted(cases[case], key=lambda one: (natural(one.metric), one.metric))
