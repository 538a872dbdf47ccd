"""Three sorted sequences walk together: nothing is left out, nothing comes twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ci.gate.merge import in_order, merge, planned_in_order
from ci.gate.plan import PlannedMetric
from ci.results.jsonl import key_order
from ci.results.records import BaselineRecord, Record
from tests.gate.samples import FIRST

KEYS = st.sets(
    st.tuples(st.sampled_from(["b2", "b10", "a", "a-1", "B", "1"]), st.sampled_from(["m2", "m10", "x"]))
)


@given(KEYS, KEYS, KEYS)
def test_every_key_once_in_order_with_its_sides(
    planned: set[tuple[str, str]], run: set[tuple[str, str]], base: set[tuple[str, str]]
) -> None:
    """The walk gives the union in canonical order, and each side exactly where it has something to say."""
    cells = list(
        merge(
            planned_in_order([PlannedMetric(*key, control=False) for key in planned]),
            in_order(tuple(Record(*key, 0, "1") for key in run)),
            in_order(tuple(BaselineRecord(*key, 0, "1", FIRST) for key in base)),
        )
    )
    keys = [(cell.case, cell.metric) for cell in cells]
    assert keys == sorted(planned | run | base, key=lambda key: key_order(*key))
    for key, cell in zip(keys, cells, strict=True):
        sides = (cell.planned, cell.record, cell.accepted)
        assert [side is not None for side in sides] == [key in one for one in (planned, run, base)]
        assert all((side.case, side.metric) == key for side in sides if side is not None)
