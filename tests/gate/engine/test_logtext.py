"""Logical lines of a log, whatever wrote it."""

from __future__ import annotations

from ci.engine.logtext import Source, read_log, source_of


def test_encodings_and_line_ends() -> None:
    """UTF-16, a byte-order mark, CRLF and bad bytes do not hide a line."""
    text = "one\r\ntwo\n"
    for data in (text.encode("utf-16"), text.encode("utf-8-sig"), text.encode() + b"\xff\n"):
        assert [line.text for line in read_log(data)][:2] == ["one", "two"]


def test_line_numbers_are_those_of_the_file() -> None:
    """Blank lines and progress bars keep their number."""
    assert [(line.number, line.text) for line in read_log(b"\na\rb\n\nc")] == [(2, "a"), (2, "b"), (4, "c")]


def test_innermost_tag_wins() -> None:
    """Nested prefixes belong to the process inside; ranks come from the name or from `rank=`."""
    assert source_of("(EngineCore_1 pid=75) (VllmWorker rank=1 pid=76) ERROR") == Source(
        "VllmWorker", "1", 76
    )
    assert source_of("(Worker_DP0_TP1 pid=12) INFO") == Source("Worker", "DP0_TP1", 12)
    assert source_of("(EngineCore_0 pid=7) INFO") == Source("EngineCore_0", None, 7)
    assert source_of("no tag").key == "main"


def test_only_a_line_without_writer_is_a_rest() -> None:
    """The next line is joined as a candidate only if nobody else wrote it."""
    lines = read_log(b"(A pid=1) half\nrest\n(B pid=2) own\n")
    assert [line.wrapped for line in lines] == ["(A pid=1) halfrest", None, None]
