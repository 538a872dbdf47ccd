"""The published schema is the one that the types give."""

from __future__ import annotations

from pathlib import Path

from ci.results.schema import records_schema, schema_bytes

PUBLISHED = Path(__file__).parents[3] / "docs" / "records.schema.json"


def test_published_schema_is_current() -> None:
    """docs/records.schema.json equals what the types give; else: python -m ci.results.schema PATH."""
    assert PUBLISHED.read_bytes() == schema_bytes()


def test_schema_is_as_strict_as_the_reader() -> None:
    """Unknown fields are refused, and a record needs case, metric, value and unit."""
    record = records_schema()["$defs"]["Record"]
    assert record["additionalProperties"] is False
    assert record["required"] == ["kind", "case", "metric", "value", "unit"]
