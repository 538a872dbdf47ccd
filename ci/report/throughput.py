"""A throughput session while it runs, as text: boots so far, and what they say.  No decisions."""

from __future__ import annotations

from collections.abc import Sequence

from ci.gate.ab import describe
from ci.gate.looks import PAIRS_PER_BLOCK
from ci.gate.throughput import Judged
from ci.report.words import plain
from ci.results.throughput import BootMeasure, Number, SessionHead

COLUMNS = ("boot", "arm", "prompt", "ms/step", "tok/s", "tokens/step", "alone ms/step", "prefill ms", "pool")


def render_boots(boots: Sequence[BootMeasure]) -> str:
    """One line for each boot and prompt."""
    rows = [COLUMNS, *(row for boot in boots for row in boot_rows(boot))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = [
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join(lines) + "\n"


def boot_rows(boot: BootMeasure) -> list[tuple[str, ...]]:
    """The lines of one boot."""
    name = f"{boot.place} {boot.letter}"
    pool = shown(boot.pool_tokens, 0)
    if boot.problems:
        return [(name, boot.arm, plain(boot.problems[0])[:80], *("" for _ in COLUMNS[3:]))]
    return [
        (
            name,
            boot.arm,
            point.point,
            shown(point.step_ms, 3),
            shown(point.decode_tok_s, 2),
            shown(point.tokens_per_step, 3),
            shown(point.isolated_step_ms, 3),
            shown(point.prefill_ms, 1),
            pool,
        )
        for point in boot.points
    ]


def render_judged(judged: Sequence[Judged]) -> str:
    """The judged metrics of each prompt: effect, interval, and the smallest loss to be seen."""
    lines = [
        f"{one.point} {one.metric}: {one.verdict.value}: {one.reason or describe(one.estimate, one.design)}"
        for one in judged
    ]
    return "\n".join(lines) + "\n"


def render_texts(head: SessionHead, boots: Sequence[BootMeasure]) -> str:
    """A line about the texts that boots wrote after each prompt: that they differ is never a failure."""
    found = []
    for point in head.points:
        ours, theirs = (
            {one.text_sha256 for boot in boots if boot.letter == letter and (one := boot.point(point))}
            for letter in "AB"
        )
        if len(ours | theirs) > 1:
            common = len(ours & theirs)
            found.append(f"{point}: {len(ours)} of A, {len(theirs)} of B, {common} in common")
    if not found:
        return "texts: the same in all boots\n"
    return f"texts differ, which is no failure: {'; '.join(found)}\n"


def render_announcement(
    head: SessionHead, done: int, untimed: int, seconds_per_boot: float, not_run: Sequence[str]
) -> str:
    """What will run and how long it may take, before anything runs.

    Args:
        head: the session.
        done: boots of whole blocks that are there already.
        untimed: boots that will not be timed.
        seconds_per_boot: an estimate, or the mean of the boots that are there.
        not_run: what the profile's origin did not run.
    """
    left = 2 * head.pairs - done
    shortest, longest = (
        minutes((untimed + boots) * seconds_per_boot) for boots in (max(0, 2 * PAIRS_PER_BLOCK - done), left)
    )
    ahead = f"{untimed} untimed and at most {left} timed boots to run, about {shortest} to {longest}"
    words = [
        f"session {head.run}: A = {head.arms[0]}, B = {head.arms[1]}, judged by {head.judge}",
        f"{done} boots are there; {ahead}",
    ]
    words += [f"not run where these settings come from: {what}" for what in not_run]
    return "\n".join(words) + "\n"


def minutes(seconds: float) -> str:
    """A duration for people."""
    return f"{seconds / 60:.0f} min"


def shown(number: Number, decimals: int) -> str:
    """A number, or that it is not known."""
    return "not read" if number.value is None else f"{number.value:,.{decimals}f}"
