"""Lines about the scratch; their reading within a boot is tested with the boot log."""

from __future__ import annotations

import json

import pytest

from ci.engine.logtext import read_log
from ci.engine.scratchlines import ScratchEvent, read_scratch_line


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("int4 mq3d scratch: allocated at metadata builder {}", ScratchEvent.LATE),
        (
            "scratch 32.25 MiB allocated at metadata builder (AFTER the memory profile: ...)",
            ScratchEvent.LATE,
        ),
        ("scratch: 1.00 MiB allocated at model load (inside the memory profile)", ScratchEvent.LOADED),
        ("scratch: adopted by the metadata builder", ScratchEvent.ADOPTED),
        ("something allocated at model load", None),
        ("scratch released", None),
    ],
)
def test_events(text: str, event: ScratchEvent | None) -> None:
    """The words decide what happened; lines about other things are none of it."""
    found = read_scratch_line(read_log(text.encode())[0])
    assert (found and found.event) == event


PLAN = {
    "max_num_batched_tokens": 2048,
    "max_num_seqs": 1,
    "seq_threshold_3D": 8,
    "max_query_len_3d": 16,
    "num_heads_q": 24,
    "num_segments": 16,
    "headdim_padded": 256,
    "capacity": 16,
    "row_bytes": 396_288,
    "total_bytes": 6_340_608,
}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({}, None),
        ({"packed_partials": 512}, None),
        ({"packed_partials": 513}, "its plan says 513 partials of 12384 B in 6340608 B"),
        ({"packed_partials": None}, "its plan says None partials"),
        ({"total_bytes": 6_340_609, "packed_partials": 512}, "where its inputs give (16, 396288, 6340608)"),
    ],
)
def test_plans_are_recomputed(more: dict[str, object], problem: str | None) -> None:
    """A plan's bytes follow from its inputs; half-precision partials, where promised, fill them exactly."""
    text = f"scratch: 6.05 MiB allocated at model load {json.dumps(PLAN | more)}"
    found = read_scratch_line(read_log(text.encode())[0])
    assert found is not None
    assert (found.problem is None) == (problem is None)
    assert problem is None or problem in str(found.problem)
