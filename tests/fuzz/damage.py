"""Random damage to bytes: cuts, insertions, repetitions, exchanges, with tokens that matter to parsers."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

TOKENS = (
    b"<",
    b">",
    b"</testcase>",
    b"<failure/>",
    b"<!--",
    b"-->",
    b"<![CDATA[",
    b"]]>",
    b"<!DOCTYPE x>",
    b"&#0;",
    b"&lt;",
    b"\0",
    b"\n",
    b"\r\n",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b'"',
    b"{",
    b"}",
    b",",
    b"null",
    b"NaN",
    b"1e999",
    b"99999999999999999999",
    b'"value":0,',
    b'"control":true',
    b"\\ud800",
    b"[" * 2000,
)
Step = tuple[str, int, int, bytes]


def steps() -> st.SearchStrategy[list[Step]]:
    """Return a strategy of one to four damages: what, where, how long, with which bytes."""
    step = st.tuples(
        st.sampled_from(("cut", "insert", "delete", "repeat", "exchange")),
        st.integers(0, 10_000),
        st.integers(1, 60),
        st.one_of(st.sampled_from(TOKENS), st.binary(min_size=1, max_size=8)),
    )
    return st.lists(step, min_size=1, max_size=4)


def damage(data: bytes, many: Sequence[Step]) -> bytes:
    """Apply the damages one after the other; places wrap around at the end of the data."""
    for kind, where, length, piece in many:
        at = where % (len(data) + 1)
        if kind == "cut":
            data = data[:at]
        elif kind == "insert":
            data = data[:at] + piece + data[at:]
        elif kind == "delete":
            data = data[:at] + data[at + length :]
        elif kind == "repeat":
            data = data[:at] + data[max(0, at - length) :]
        else:
            data = data[:at] + piece + data[at + len(piece) :]
    return data
