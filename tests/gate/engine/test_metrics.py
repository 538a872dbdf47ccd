"""Counters of /metrics: in every form that servers write them, and when they say nothing."""

from __future__ import annotations

import itertools

import pytest

from ci.engine.metrics import Counter, MetricsError, growth, read_metrics, settled

START = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.7000000e+09\n"

NO_SUFFIX = (
    "# TYPE vllm:spec_decode_num_drafts counter\n"
    'vllm:spec_decode_num_drafts{engine="0",model_name="m"} 12\n# EOF\n'
)


def page(drafts: float, *, start: str = START, engine: str = "0", created: str = "1.7e+09") -> str:
    """A page with a counter of drafts."""
    labels = f'{{engine="{engine}",model_name="m"}}'
    return (
        f"{start}# TYPE vllm:spec_decode_num_drafts_total counter\n"
        f"vllm:spec_decode_num_drafts_total{labels} {drafts}\n"
        "# TYPE vllm:spec_decode_num_drafts_created gauge\n"
        f"vllm:spec_decode_num_drafts_created{labels} {created}\n"
    )


def grown(before: str, after: str, counter: Counter = Counter.DRAFTS) -> tuple[float | None, str]:
    """Growth and reason."""
    found = growth(read_metrics(before), read_metrics(after), counter)
    return found.value, found.reason or ""


def test_growth() -> None:
    """Later minus earlier; `_created` beside it is no counter."""
    assert grown(page(10), page(158)) == (148.0, "")


@pytest.mark.parametrize(
    "after",
    [
        'vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 12\n',
        NO_SUFFIX,
        'vllm:spec_decode_num_drafts_total{engine="0",model_name="m",} 1.2e+01 1700000000123\n',
    ],
)
def test_forms(after: str) -> None:
    """Without its type, without its suffix, with a time stamp and a last comma."""
    before = after.replace("} 12", "} 10").replace(",} 1.2e+01", ",} 1e+01")
    assert grown(before, after) == (2.0, "")


def test_engines() -> None:
    """Two engines behind one server are added up; an escaped label cuts nothing."""
    name = r'model_name="C:\\m \"q\", b}{ x"'
    metric = "vllm:generation_tokens_total"
    before = f'{metric}{{engine="0",{name}}} 5\n{metric}{{engine="1",{name}}} 7\n'
    after = before.replace("} 5", "} 6").replace("} 7", "} 17")
    assert grown(before, after, Counter.GENERATED_TOKENS) == (11.0, "")
    one = after.splitlines(keepends=True)[0]
    for pages in ((before, one), (one, after), ("up 1\n", after)):
        assert "do not stand on both pages" in grown(*pages, Counter.GENERATED_TOKENS)[1]


def test_iterations() -> None:
    """Scheduler iterations are the entries of a histogram; its sum and buckets are something else."""
    text = (
        "# TYPE vllm:iteration_tokens_total histogram\n"
        'vllm:iteration_tokens_total_bucket{{engine="0",le="8.0"}} {0}\n'
        'vllm:iteration_tokens_total_bucket{{engine="0",le="+Inf"}} {0}\n'
        'vllm:iteration_tokens_total_count{{engine="0"}} {0}\n'
        'vllm:iteration_tokens_total_sum{{engine="0"}} {1}\n'
    )
    assert grown(text.format(3, 900), text.format(40, 1300), Counter.ITERATIONS) == (37.0, "")


def test_older_names() -> None:
    """The prefix cache's counters had another name before."""
    old = 'vllm:gpu_prefix_cache_hits_total{engine="0"} '
    assert grown(f"{old}0\n", f"{old}6000\n", Counter.CACHE_HITS) == (6000.0, "")
    new = old.replace("gpu_", "")
    both = f"{old}0\n{new}0\n", f"{old}0\n{new}6000\n"  # the old one may stay, and count no more
    assert grown(*both, Counter.CACHE_HITS) == (6000.0, "")


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (page(70_000, start=START.replace("1.7000000", "1.7000900")), "process_start_time_seconds changed"),
        (page(70_000, created="1.70009e+09"), "vllm:spec_decode_num_drafts_created changed"),
        (page(5), "fell from 10 to 5"),
        (page(9), "fell from 10 to 9"),
        (page(float("nan")), "from 10 to nan, which is no count"),
        (
            START + 'vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7e+09\n',
            "no vllm:spec_dec",
        ),
        ("up 1\n", "is gone"),
    ],
)
def test_not_known(after: str, words: str) -> None:
    """A restart (also where the new value is larger), a fall, NaN, no such counter: None and why."""
    value, reason = grown(page(10), after)
    assert value is None
    assert words in reason


def test_no_count_before() -> None:
    """The value that is none is told, also where it is the earlier one."""
    assert "from nan to 8, which is no count" in grown(page(float("nan")), page(8))[1]


@pytest.mark.parametrize(
    "text",
    [None, "", "Internal Server Error", "<html>no</html>", '{"detail":1}', f"up 1 {'9' * 400}\n"],
    ids=["none", "empty", "words", "html", "json", "time stamp"],
)
def test_no_page(text: str | None) -> None:
    """An error page is no page with counters at zero."""
    with pytest.raises(MetricsError):
        read_metrics(text)


def test_settled() -> None:
    """Pages are read until two agree, so that the last step is in."""
    pages = iter([page(1), page(2), page(3), page(3), page(4)])
    assert settled(lambda: next(pages), lambda: None).samples == read_metrics(page(3)).samples


def test_a_page_that_never_settles() -> None:
    """Another page each time: the twentieth behind the first is taken as it is."""
    numbers = itertools.count()
    waits: list[int] = []
    got = settled(lambda: page(next(numbers)), lambda: waits.append(1))
    assert got.samples == read_metrics(page(20)).samples
    assert len(waits) == 20
