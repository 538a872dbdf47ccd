"""Which batches took which kernel, as the lines of a boot tell it, and what that breaks."""

from __future__ import annotations

import lzma
from dataclasses import replace
from pathlib import Path

import pytest

from ci.engine.census import mode_of, questions, take_census
from ci.engine.logtext import read_log
from ci.gate.census import broken_rules, verify_widths
from ci.report.census import facts
from ci.results.census import Batch, Census

PREFILL = "max_query_len_policy>16"
CONFIG = "INFO 01-02 03:04:05 [core.py:1] Initializing a V1 LLM engine (v0.27.1) with config: enforce_eager="


def line(tokens: int, seqs: int, longest: int, path: str = "3D", reasons: str = "NONE(3d eligible)") -> str:
    """One dispatch line."""
    return (
        f"(EngineCore pid=5) INFO 01-02 03:04:05 [i.py:860] int4 mq3d dispatch: tokens={tokens} "
        f"num_seqs={seqs} max_seqlen_q={longest} path={path} reasons={reasons}\n"
    )


def census(text: str, mode: str | None = "NONE") -> Census:
    """The census of a log."""
    return take_census(read_log(text.encode()), mode)


DEPTH_15 = "".join(line(width * 4, 4, width) for width in range(9, 17)) + line(1840, 1, 1840, "2D", PREFILL)


def test_lines_are_counted() -> None:
    """Calls of one shape, path and reason are counted together."""
    found = census(line(1840, 1, 1840, "2D", PREFILL) + line(9, 1, 9) * 3 + "INFO other\n")
    assert found.calls == {
        Batch(9, 1, 9, "3D", "NONE(3d eligible)"): 3,
        Batch(1840, 1, 1840, "2D", PREFILL): 1,
    }
    assert (found.count(verify=True), found.count(verify=False), found.count(path="2D")) == (3, 1, 1)


def test_a_line_with_endless_digits_is_cut() -> None:
    """It is counted as damage, and breaks a rule."""
    found = census(line(int("9" * 4000), 1, 9))
    assert (found.calls, found.cut_lines) == ({}, 1)


def test_published_share_of_the_band() -> None:
    """One 9-token step among 152, with 16 layers printing a line each."""
    found = census(line(9, 1, 9) * 16 + line(8, 1, 8) * (151 * 16))
    assert found.band_share(layers=16) == (1, 152)
    assert "1 of 152 decode steps in the band" in facts(found, 16)[0]
    assert "16 of 2432 calls of decode steps in the band" in facts(found, None)[0]


@pytest.mark.parametrize("mode", ["FULL", "FULL_AND_PIECEWISE", "FULL_DECODE_ONLY", "unknown"])
def test_graphs_hide_steps(mode: str) -> None:
    """Where attention is captured, or may be, the share is unknown and its steps are called unseen."""
    found = census(line(9, 1, 9) * 16, mode)
    assert found.hides_steps
    assert found.band_share(layers=16) is None
    assert facts(found, 16)[0].startswith(
        f"graph mode {mode}: replayed steps print nothing, so steps are unseen"
    )


@pytest.mark.parametrize("mode", ["NONE", "PIECEWISE"])
def test_steps_that_all_print(mode: str) -> None:
    """Without graphs, and with graphs that leave attention out, every step is there."""
    assert not census(line(9, 1, 9), mode).hides_steps


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (CONFIG + "True, compilation_config={'cudagraph_mode': <CUDAGraphMode.FULL: 2>}", "NONE"),
        (
            CONFIG + "False, 'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>,",
            "FULL_AND_PIECEWISE",
        ),
        ("CUDAGraphMode.FULL is not supported; setting cudagraph_mode=PIECEWISE", "PIECEWISE"),
        ("cudagraph_mode=FULL ... setting cudagraph_mode=FULL_DECODE_ONLY", "FULL_DECODE_ONLY"),
        ("nothing about it", None),
    ],
)
def test_graph_mode(text: str, mode: str | None) -> None:
    """The mode is read in the forms that vLLM prints; eager is none."""
    assert mode_of(text) == mode


def test_the_last_word_on_the_mode_counts() -> None:
    """An engine that settles on another mode later says so later; a log that says none is not eager."""
    said = CONFIG + "False, 'cudagraph_mode': <CUDAGraphMode.FULL: 2>\nsetting cudagraph_mode=PIECEWISE\n"
    assert census(said, None).graph_mode == "PIECEWISE"
    assert census("", None).graph_mode == "unknown"


def test_widths_of_a_depth() -> None:
    """A drafter asks for its tokens and the one before them: only depth 15 reaches the whole band."""
    assert [list(verify_widths(depth)) for depth in (7, 8, 11)] == [[], [9], [9, 10, 11, 12]]
    assert verify_widths(15) == verify_widths(31) == range(9, 17)


def test_published_depth_15_is_whole() -> None:
    """Every width on 3D, prefill on 2D by policy, no fallback, no breach: no rule is broken."""
    assert broken_rules(census(DEPTH_15), verify_widths(15)) == []


def test_published_counts() -> None:
    """712 verify batches, all on 3D, and 4,223 prefill chunks, all on 2D by policy."""
    found = census(line(64, 4, 16) * 712 + line(1840, 1, 1840, "2D", PREFILL) * 4223)
    assert facts(found, None)[1:] == [
        "712 calls of verify batches, 712 of them on 3D",
        "4223 calls of prefill chunks, 4223 of them on 2D",
        "0 calls fell back for lack of scratch rows",
    ]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (line(40, 4, 10, "2D", "q_token_capacity_failed"), "width 10 took 2D and 3D"),
        (line(40, 4, 10, "2D", "q_token_capacity_failed"), "1 calls fell back for lack of scratch rows"),
        (line(4, 1, 4, "2D", "q_token_capacity_failed"), "1 calls fell back for lack of scratch rows"),
        (line(17, 1, 17), "1 prefill calls were not on 2D by the policy of query length"),
        (line(17, 1, 17, "2D", "q_token_capacity_failed"), "1 prefill calls were not on 2D by the policy"),
        (
            "ERROR 01-02 03:04:05 [i.py:1] int4 mq3d DEGRADED: a batch of 9",
            "some breaches, 1 lines that say so",
        ),
        ("INFO 01-02 03:04:05 [i.py:860] int4 mq3d dispatch: tokens=9 num_se\n", "1 dispatch lines are cut"),
    ],
)
def test_each_rule_turns_red(more: str, sentence: str) -> None:
    """What a boot must not do is found beside everything that is right."""
    found = broken_rules(census(DEPTH_15 + more), verify_widths(15))
    assert any(one.startswith(sentence) for one in found), found


def test_what_is_missing_turns_red() -> None:
    """A width that no batch had, a breach count that nobody read or that is not 0, and no line at all."""
    found = census(DEPTH_15)
    without = replace(found, calls={one: 1 for one in found.calls if one.longest != 12})
    assert broken_rules(without, verify_widths(15)) == ["no batch of width 12 was seen"]
    assert broken_rules(found, (), None) == ["the count of breaches was not read"]
    assert broken_rules(found, (), 16) == ["16 breaches, 0 lines that say so"]
    assert broken_rules(census(""), ())[0].startswith("no dispatch line")


def test_questions_form_every_width() -> None:
    """Prompts end near the context's end, for one to four sequences, and short ones have each width."""
    asked = questions(4096, 4)
    near = [(len(prompts), {len(one) + tokens for one in prompts}) for prompts, tokens in asked[:4]]
    assert near == [(1, {4096}), (2, {4096, 4095}), (3, {4096, 4095, 4094}), (4, {4096, 4095, 4094, 4093})]
    assert [[len(one) for one in prompts] for prompts, _ in asked[4:]] == [[width] for width in range(9, 17)]
    assert len(questions(4096, 1)) == 9
    with pytest.raises(ValueError, match="too short"):
        questions(127, 4)


def test_recorded_census() -> None:
    """A boot of the dummy at depth 15 on an H200, without graphs: every rule holds, and each line counts."""
    path = Path(__file__).parent / "logs" / "recorded" / "h200-census-15.log.xz"
    found = take_census(read_log(lzma.decompress(path.read_bytes())))
    assert (found.graph_mode, found.hides_steps) == ("NONE", False)
    assert broken_rules(found, verify_widths(15)) == []
    assert (found.count(path="3D", verify=True), found.count(path="2D", verify=True)) == (1582, 0)
    assert (found.count(path="2D", verify=False), found.count(path="3D", verify=False)) == (226, 0)
    assert (found.band_calls, found.capacity_fallbacks) == (366, 0)
    assert found.calls[Batch(31, 2, 16, "3D", "NONE(3d eligible)")] == 16
