"""Which batches took which kernel, as the lines of a boot tell it."""

from __future__ import annotations

from ci.engine.census import Batch, Census, broken_rules, take_census
from ci.engine.logtext import read_log


def line(tokens: int, seqs: int, longest: int, path: str = "3D", reasons: str = "NONE(3d eligible)") -> str:
    """One dispatch line."""
    return (
        f"(EngineCore pid=5) INFO 01-02 03:04:05 [i.py:860] int4 mq3d dispatch: tokens={tokens} "
        f"num_seqs={seqs} max_seqlen_q={longest} path={path} reasons={reasons}\n"
    )


def census(text: str, graphs: bool = False) -> Census:
    """The census of a log."""
    return take_census(read_log(text.encode()), graphs)


def test_lines_become_a_table() -> None:
    """Calls of one shape, path and reason are counted together."""
    found = census(line(9, 1, 9) * 3 + line(1840, 1, 1840, "2D", "max_query_len_policy>16") + "INFO other\n")
    assert found.calls == {
        Batch(9, 1, 9, "3D", "NONE(3d eligible)"): 3,
        Batch(1840, 1, 1840, "2D", "max_query_len_policy>16"): 1,
    }
    assert (found.count(verify=True), found.count(verify=False), found.count(path="2D")) == (3, 1, 1)


def test_published_share_of_the_band() -> None:
    """One 9-token step among 152, with 16 layers printing a line each."""
    found = census(line(9, 1, 9) * 16 + line(8, 1, 8) * (151 * 16))
    assert found.band_share(layers=16) == (1, 152)


def test_graphs_hide_steps() -> None:
    """With graphs the share is unknown, not what the captures printed."""
    assert census(line(9, 1, 9) * 16, graphs=True).band_share(layers=16) is None


def test_published_depth_15_is_whole() -> None:
    """Every width on 3D, prefill on 2D by policy, no fallback: no rule is broken."""
    text = "".join(line(width * 4, 4, width) for width in range(9, 17))
    assert (
        broken_rules(census(text + line(1840, 1, 1840, "2D", "max_query_len_policy>16")), range(9, 17)) == []
    )


def test_each_rule_turns_red() -> None:
    """A width that is missing, one on 2D, a fallback, and no line at all are each found."""
    fallback = line(40, 4, 10, "2D", "q_token_capacity_failed")
    assert broken_rules(census(fallback), [10, 12]) == [
        "width 10 took 2D",
        "no batch of width 12 was seen",
        "1 calls fell back for lack of scratch rows",
    ]
    assert broken_rules(census(""), [])[0].startswith("no dispatch line")
