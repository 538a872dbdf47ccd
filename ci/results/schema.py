"""The JSON Schema of results and baselines, generated from the record types.

``python -m ci.results.schema docs/records.schema.json`` writes the published copy.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from ci.results.files import write_atomic
from ci.results.records import BaselineHead, BaselineRecord, Record, RunHead

_TYPES = (RunHead, Record, BaselineHead, BaselineRecord)


def records_schema() -> dict[str, Any]:
    """Return a schema that accepts each single line of a results or baseline file."""
    references, definitions = msgspec.json.schema_components(_TYPES, ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of a forkproof results or baseline file",
        "description": (
            "A results file is one `run` line, then `record` lines; a baseline file is one `baseline` line "
            "and `record` lines with an acceptance. Each pair of case and metric stands once. Texts are "
            "UTF-8, keys stand once, numbers are finite and integers fit into 64 bits."
        ),
        "anyOf": list(references),
        "$defs": definitions,
    }


def schema_bytes() -> bytes:
    """Return the published form: indented, keys in order, a newline at the end."""
    return (json.dumps(records_schema(), indent=2, sort_keys=True) + "\n").encode()


if __name__ == "__main__":
    write_atomic(Path(sys.argv[1]), schema_bytes())
