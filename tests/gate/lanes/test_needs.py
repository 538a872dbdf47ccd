from __future__ import annotations

import json

import pytest

from ci.lanes.needs import NeedsError, unmet


def test_only_success_is_success() -> None:
    """Skipped and cancelled jobs count against the commit like failed ones."""
    results = ("success", "skipped", "cancelled", "failure")
    needs = {name: {"result": result} for name, result in zip("abcd", results, strict=True)}
    assert unmet(json.dumps({**needs, "e": {}}).encode()) == [
        ("b", "skipped"),
        ("c", "cancelled"),
        ("d", "failure"),
        ("e", "None"),
    ]
    assert unmet(b'{"a":{"result":"success","outputs":{}}}') == []


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"a": 1}', b"\xff"])
def test_nothing_to_wait_for_is_no_success(data: bytes) -> None:
    """A workflow whose last job waits for nothing, or says something else, is an error."""
    with pytest.raises(NeedsError):
        unmet(data)
