"""What a boot's census must show.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ci.results.census import BAND, Census

POLICY = "max_query_len_policy"
"""Why a prefill chunk stays on the 2D kernel."""


def verify_widths(depth: int) -> range:
    """The widths of the band that a drafter of this depth can ask for: its tokens and the one before them."""
    return range(BAND.start, min(BAND.stop, depth + 2))


def broken_rules(census: Census, widths: Iterable[int], breaches: int | None = 0) -> list[str]:
    """What a boot breaks: each width seen and on 3D, no capacity fallback, no breach; empty if nothing.

    Args:
        census: of the boot.
        widths: that must have been seen.
        breaches: that the engine counted; None if it was not asked.
    """
    broken = []
    if not census.calls:
        broken.append("no dispatch line: VLLM_INT4_MQ_3D_DEBUG was off, or no int4 attention ran")
    if census.cut_lines:
        broken.append(f"{census.cut_lines} dispatch lines are cut: the log is damaged")
    paths = census.band_widths
    for width in widths:
        if width not in paths:
            broken.append(f"no batch of width {width} was seen")
    for width, seen in sorted(paths.items()):
        if seen != {"3D"}:
            broken.append(f"width {width} took {' and '.join(sorted(seen))}")
    if census.capacity_fallbacks:
        broken.append(f"{census.capacity_fallbacks} calls fell back for lack of scratch rows")
    strays = sum(
        number
        for batch, number in census.calls.items()
        if not census.decodes(batch) and (batch.path != "2D" or POLICY not in batch.reasons)
    )
    if strays:
        broken.append(f"{strays} prefill calls were not on 2D by the policy of query length")
    if breaches is None:
        broken.append("the count of breaches was not read")
    if breaches or census.degraded_lines:
        broken.append(f"{breaches or 'some'} breaches, {census.degraded_lines} lines that say so")
    return broken
