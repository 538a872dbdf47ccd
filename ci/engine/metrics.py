"""Counters of a server's /metrics, and how much they grew over a request.

What cannot be read is None with its reason: a page that is no metrics page, a counter that this vLLM does not
have, or one that began anew in between, which the numbers alone need not show.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from ci.errors import GateError

PROCESS_START = "process_start_time_seconds"
CREATED = "_created"


class MetricsError(GateError):
    """The text is no metrics page."""


class Counter(enum.Enum):
    """What a server counts; the value lists its names, the present one first.

    The reader gives every counter the suffix `_total`, whether its server writes it or not.
    """

    ITERATIONS = ("vllm:iteration_tokens_total_count",)
    """Engine steps that gave tokens: the number of entries of a histogram over tokens per step."""
    DRAFTS = ("vllm:spec_decode_num_drafts_total",)
    GENERATED_TOKENS = ("vllm:generation_tokens_total",)
    CACHE_HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")
    """Prompt tokens that were found in the prefix cache."""


Key = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True)
class Snapshot:
    """Every sample of one page, by name and labels."""

    samples: Mapping[Key, float]

    def named(self, name: str) -> dict[frozenset[tuple[str, str]], float]:
        """The samples of one name, by their labels."""
        return {labels: value for (one, labels), value in self.samples.items() if one == name}


@dataclass(frozen=True)
class Growth:
    """How much a counter grew, or why that is not known."""

    value: float | None
    reason: str | None = None


def read_metrics(page: str | None) -> Snapshot:
    """The samples of a metrics page.

    Raises:
        MetricsError: there is no page, or it is something else, such as the text of an error.
    """
    if page is None:
        raise MetricsError("/metrics is not served", remedy="look at the server's log for its own error")
    samples: dict[Key, float] = {}
    try:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                samples[sample.name, frozenset(sample.labels.items())] = float(sample.value)
    except (ValueError, OverflowError, KeyError, IndexError, TypeError) as error:
        first = page.strip().partition("\n")[0][:120]
        raise MetricsError(f"/metrics cannot be read ({error}): {first!r}") from error
    if not samples:
        raise MetricsError(f"/metrics holds no sample: {page.strip()[:120]!r}")
    return Snapshot(samples)


def growth(before: Snapshot, after: Snapshot, counter: Counter) -> Growth:
    """How much a counter grew between two pages of one server, over all engines.

    vLLM registers its counters with their labels at its start: one that is on one page only is unknown on the
    other, not zero.
    """
    restarted = restart(before, after)
    if restarted:
        return Growth(None, restarted)
    name = next((one for one in counter.value if after.named(one)), None)
    if name is None:
        return Growth(None, f"/metrics has no {' or '.join(counter.value)}")
    earlier, later = before.named(name), after.named(name)
    if set(earlier) != set(later):
        return Growth(None, f"{name}: the same engines do not stand on both pages")
    total = 0.0
    for labels, now in later.items():
        then = earlier[labels]
        if not math.isfinite(now - then):
            return Growth(None, f"{name} went from {then:g} to {now:g}, which is no count")
        if now < then:
            return Growth(None, f"{name} fell from {then:g} to {now:g}: it began anew")
        total += now - then
    return Growth(total)


def restart(before: Snapshot, after: Snapshot) -> str | None:
    """What shows that the counters began anew in between; they may since have grown beyond the old values."""
    marks = [key for key in before.samples if key[0] == PROCESS_START or key[0].endswith(CREATED)]
    for key in marks:
        then, now = before.samples[key], after.samples.get(key)
        if now is None or now != then:
            said = "is gone" if now is None else f"changed from {then:.10g} to {now:.10g}"
            return f"the server was started anew in between: {key[0]} {said}"
    return None


def settled(read: Callable[[], str | None], wait: Callable[[], None], tries: int = 20) -> Snapshot:
    """A page that equals the one before it in every counter that is looked at here.

    The last step's counters may be written just after its text is sent.

    Args:
        read: gets the page.
        wait: called between two reads.
        tries: reads after which the last page is taken as it is.

    Raises:
        MetricsError: as for `read_metrics`.
    """
    names = {name for counter in Counter for name in counter.value}
    last = read_metrics(read())
    for _ in range(tries):
        wait()
        page = read_metrics(read())
        if all(page.named(name) == last.named(name) for name in names):
            return page
        last = page
    return last
