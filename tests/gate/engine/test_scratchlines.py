"""Lines about the scratch; their reading within a boot is tested with the boot log."""

from __future__ import annotations

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
