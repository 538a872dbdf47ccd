"""The defect and its cause, as a table: arm, graph mode and batch size -> kernel and reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from armlib.other_arm import run_in_arm
from armlib.production import NotInArmError
from cases import CAPACITY, ELIGIBLE, POLICY
from defect import BATCH_SIZES, table

SERVED, TOO_LONG, SHORT = f"3D: {ELIGIBLE}", f"2D: {POLICY}", f"2D: {CAPACITY}"


def test_sequence_units_lose_nine_tokens(measure: Any) -> None:
    """In the arm sized in sequences nine tokens fall back under graphs only, and the rows are the cause."""
    try:
        found = run_in_arm("mq3d", Path(__file__).with_name("defect.py"))
    except NotInArmError as error:  # a tree without the series' earlier arms
        for mode in ("graphs", "eager"):
            for size in BATCH_SIZES:
                measure(f"defect-mq3d-{mode}", f"batch_{size}", None, unit="name", reason=str(error))
        return
    for mode, rows in found["table"].items():
        for batch, value in rows.items():
            measure(f"defect-mq3d-{mode}", batch, value, unit="name")
    for flip, value in found["flips"].items():
        measure("defect-mq3d-flips", flip, value, unit="name")
    assert found["table"]["graphs"]["batch_9"] == SHORT
    assert found["table"]["eager"]["batch_9"] == SERVED
    assert found["flips"] == {"eager_8_rows": SHORT, "graphs_16_rows": SERVED}


def test_token_units_serve_nine_tokens(measure: Any) -> None:
    """In the arm under test graph mode no longer decides: all batches up to 16 tokens are served."""
    for mode, rows in table().items():
        for batch, value in rows.items():
            measure(f"defect-{mode}", batch, value, unit="name")
        assert [rows[f"batch_{size}"] for size in (1, 2, 4, 8, 9)] == [SERVED] * 5
        assert rows["batch_24"] == TOO_LONG
