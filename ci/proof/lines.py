"""Damages to the lines of the records."""

from __future__ import annotations

from ci.proof.damage import OPEN, Damage, measure, record
from ci.proof.rules import GateRule

DAMAGES = (
    Damage(
        "NUL bytes in a record",
        GateRule.STRICT,
        "invalid",
        OPEN,
        "NUL bytes",
        record('"unit":"MiB"', '"unit":"M\0B"'),
    ),
    Damage(
        "NaN as a value",
        GateRule.STRICT,
        "invalid",
        OPEN,
        "records.jsonl:",
        record('"value":225.76', '"value":NaN'),
    ),
    Damage(
        "a text as a number",
        GateRule.LIKE_WITH_LIKE,
        "invalid",
        OPEN,
        "the type changed",
        record('"metric":"violations","value":0', '"metric":"violations","value":"0"'),
    ),
    Damage(
        "bytes that are no UTF-8",
        GateRule.STRICT,
        "invalid",
        OPEN,
        "records.jsonl:",
        record('"unit":"MiB"', '"unit":"\udcff"'),
    ),
    Damage(
        "duplicated record",
        GateRule.STRICT,
        "invalid",
        OPEN,
        "recorded twice",
        lambda c: c.add_line(c.records, c.records.read_text().splitlines()[-1]),
    ),
    Damage(
        "key given twice",
        GateRule.STRICT,
        "invalid",
        OPEN,
        "given twice",
        record('"metric":"violations"', '"metric":"x","metric":"violations"'),
    ),
    Damage(
        "unknown field",
        GateRule.STRICT,
        "invalid",
        OPEN,
        "unknown field",
        record('"metric":"violations"', '"metric":"violations","extra":1'),
    ),
    Damage(
        "second head",
        GateRule.STRICT,
        "invalid",
        OPEN,
        "a second head",
        lambda c: c.add_line(c.records, c.records.read_text().splitlines()[0]),
    ),
    Damage(
        "head gone",
        GateRule.STRICT,
        "invalid",
        OPEN,
        "not a head",
        lambda c: c.drop_line(c.records, '"kind":"run"'),
    ),
    Damage(
        "unread value",
        GateRule.UNREAD,
        "invalid",
        OPEN,
        "could not be read",
        measure("boot", "bytes", None, "bytes", reason="line 7 not found"),
    ),
    Damage(
        "unread value without a reason",
        GateRule.UNREAD,
        "invalid",
        OPEN,
        "without a reason",
        record('"value":1024', '"value":null'),
    ),
)
