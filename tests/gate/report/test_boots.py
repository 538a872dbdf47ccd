"""The memory table as a reader sees it."""

from __future__ import annotations

from ci.gate.attempts import Attempt
from ci.gate.membudget import Finding, Row
from ci.gate.verdict import Verdict
from ci.report.boots import RowBoots, change, render_attempts, render_rows, size
from ci.results.boot import BootFacts, Measured

MIB = 1 << 20
GIB = 1 << 30


def boot(**sizes: int) -> BootFacts:
    """A boot with these sizes."""
    return BootFacts(
        name="b",
        arm="a",
        lane="h200",
        environment="container",
        session="s",
        max_num_seqs=32,
        problem=None,
        lineage="cold",
        ubatching=False,
        loaded=Measured(sizes["loaded"]),
        adopted_lines=4,
        late_lines=0,
        expected_adoptions=4,
        model_load=Measured(sizes["load"]),
        available_kv=Measured(sizes["kv"]),
        kv_tokens=Measured(sizes["tokens"]),
        block_tokens=Measured(16),
        free_after_boot=Measured(None, reason="not read"),
        resident=Measured(None, reason="not read"),
    )


def test_attempts() -> None:
    """A line per boot, then what did not end as published; an exception of a log stays on its line."""
    ended = [
        Attempt("patched-1-1", "failed", "out of memory", "graph capture"),
        Attempt("patched-1-2", "failed", "ValueError: a\nb", None),
    ]
    assert render_attempts(ended, ["patched-1-2: other"]).splitlines() == [
        "boot         outcome  cause             came to",
        "patched-1-1  failed   out of memory     graph capture",
        "patched-1-2  failed   ValueError: a\\nb  -",
        "",
        "patched-1-2: other",
    ]


def test_table_and_findings() -> None:
    """One line per row, differences signed, then every finding that is not a pass, on one line each."""
    stock = boot(loaded=0, load=GIB, kv=10 * GIB, tokens=200_000)
    patched = boot(loaded=451 * MIB, load=GIB + 451 * MIB, kv=10 * GIB - 451 * MIB, tokens=180_000)
    findings = (
        Finding("good", Verdict.PASS, "x"),
        Finding("budget", Verdict.REGRESSED, "two\nlines"),
        Finding("free", None, "+1.00 MiB"),
    )
    header, line, blank, *found = render_rows(
        [RowBoots(Row(32, findings), [stock, stock], patched)]
    ).splitlines()
    assert header.split("  ")[0] == "max_num_seqs"
    assert " ".join(line.split()) == (
        "32 451.00 MiB +451.00 MiB -451.00 MiB -20,000 not read 4 adopted / 0 after regressed"
    )
    assert (blank, found) == ("", ["[32] regressed: budget: two\\nlines"])
    assert [header.index(word) for word in ("at load", "available KV", "verdict")] == [
        line.index(word) for word in ("451.00", "-451.00", "regressed")
    ]


def test_unread_is_said() -> None:
    """A size that was not read is never shown as zero."""
    none = Measured(None, reason="x")
    assert (size(none), change(none, Measured(1)), change(Measured(1), none)) == ("not read",) * 3
