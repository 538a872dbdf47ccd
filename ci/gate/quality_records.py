"""What both arms of a quality session said: the verdict on arm B, and the records.  Pure."""

from __future__ import annotations

import math

from ci.gate.policy import Policy
from ci.gate.quality import WORST, Paired, Scored, pair, perplexity
from ci.gate.values import judge as judge_value
from ci.gate.verdict import Verdict
from ci.results.quality import ArmScores, Talk
from ci.results.records import Record
from ci.results.throughput import Number

SUITE = "quality"
ALL = "all"
"""The case over all splits of the texts."""
OWN = ("loops_a", "truncated_a")
"""Faults of the reference: no regression of the subject, but nobody should overlook them."""
NO_REFERENCE = 0.5
"""The share of completions over which a fault, of which the subject has no more, makes the reference none.

What broke most of A may have broken B as well: only where most completions are whole do they show anything.
"""
NOTHING_LEFT = "the reference does it in more than half of its completions, so it is no reference"


def judge(first: ArmScores, second: ArmScores, policy: Policy) -> tuple[Verdict, str]:
    """The verdict on arm B by the policy's bounds, and in which numbers it rests.

    No accepted value plays a part: what is bounded compares the arms with each other. So few items, or right
    answers of A, that no loss could have been seen are inconclusive, unless something else is out of bounds.
    """
    records = records_of(first, second)
    paired = pair(first.maths, second.maths)
    detectable = paired.detectable
    seen = "no loss at all" if detectable is None else f"a loss of {detectable:.1%} in 80% of cases"
    lost = f"{paired.only_a} items lost, {paired.only_b} won of {paired.items}, p {paired.p_loss:.3f}"
    words = f"{lost}; would have seen {seen}"
    if second.silent:
        words += f"; {second.silent} of {paired.items} answers of B have no text"
    if faults := [
        f"{one.case} {one.metric} {one.value}" for one in records if one.metric in OWN and one.value
    ]:
        words += f"; the reference itself: {', '.join(faults)}"
    worse = [
        f"{one.case} {one.metric}"
        for one in records
        if one.value is not None
        and (rule := policy.rule_for(SUITE, one.case, one.metric))
        and judge_value(rule, one.value, one.value)[0] is not Verdict.PASS
    ]
    if worse:
        return Verdict.REGRESSED, f"{words}; out of bounds: {', '.join(worse)}"
    if detectable is None:
        return Verdict.INCONCLUSIVE, f"{words}; ask more items, or such as the reference gets right"
    if full := [f"{one.case} {one.metric}" for one in records if one.reason == NOTHING_LEFT]:
        return Verdict.INCONCLUSIVE, f"{words}; {NOTHING_LEFT}: {', '.join(full)}"
    return Verdict.PASS, words


def records_of(first: ArmScores, second: ArmScores) -> list[Record]:
    """The records of a quality session; none has a value where an arm cannot be compared."""
    problems = [problem for one in (first, second) for problem in one.problems]
    if problems:
        return [Record("gsm8k", "p_loss", None, "1", reason=f"the session is invalid: {problems[0]}")]
    paired = pair(first.maths, second.maths)
    found = maths_records(paired, first.mean_tokens, second.mean_tokens)
    for name, ratio in ratios(first, second).items():
        found.append(Record(f"perplexity-{name}", "ratio", ratio, "1"))
        found.append(Record(f"perplexity-{name}", "perplexity", perplexity(parts(second, name)), "1"))
    for name, one in second.talks.items():
        found += talk_records(f"tools-{name}", first.talks[name], one)
    return found


def talk_records(case: str, first: Talk, second: Talk) -> list[Record]:
    """A tool conversation: a fault that the reference has, too, is not one of the subject."""
    found = [
        Record(case, "completions", second.completions, "completions"),
        Record(case, "right_a", first.right, "decisions"),
        Record(case, "right_b", second.right, "decisions"),
    ]
    faults = {"loops": (first.loops, second.loops), "truncated": (first.truncated, second.truncated)}
    for fault, (a, b) in faults.items():
        comparable = b > a or a <= first.completions * NO_REFERENCE
        found += [
            Record(case, f"{fault}_a", a, "completions"),
            Record(case, f"{fault}_b", b, "completions"),
            Record(case, f"more_{fault}", b - a, "completions")
            if comparable
            else Record(case, f"more_{fault}", None, "completions", reason=NOTHING_LEFT),
        ]
    return found


def maths_records(paired: Paired, first: Number, second: Number) -> list[Record]:
    """The word problems."""
    reason = (
        None if paired.detectable is not None else "so few items or right answers show no loss of any size"
    )
    return [
        Record("gsm8k", "items", paired.items, "items"),
        Record("gsm8k", "accuracy_a", paired.accuracy_a, "1"),
        Record("gsm8k", "accuracy_b", paired.accuracy_b, "1"),
        Record("gsm8k", "only_a", paired.only_a, "items"),
        Record("gsm8k", "only_b", paired.only_b, "items"),
        Record("gsm8k", "p_loss", paired.p_loss, "1"),
        Record("gsm8k", "p_two_sided", paired.p_two_sided, "1"),
        Record("gsm8k", "detectable_loss", paired.detectable, "1", reason=reason),
        Record("gsm8k", "mean_tokens_a", first.value, "tokens", reason=first.reason),
        Record("gsm8k", "mean_tokens_b", second.value, "tokens", reason=second.reason),
    ]


def mismatch(first: ArmScores, second: ArmScores) -> tuple[str, str] | None:
    """In what two arms cannot be compared item by item, and the cause; None if they can."""
    if set(first.maths) != set(second.maths):
        return "answer different word problems", "their source changed between the two boots"
    for name, its in first.texts.items():
        if [one.tokens for one in its] != [one.tokens for one in second.texts[name]]:
            return f"count different tokens of text {name}", "their tokenizers differ, or a file was changed"
    return None


def ratios(first: ArmScores, second: ArmScores) -> dict[str, float]:
    """Perplexity of B over that of A, by split and over all."""
    names = [*second.texts, ALL] if second.texts else []
    return {name: perplexity(parts(second, name)) / perplexity(parts(first, name)) for name in names}


def unscored(scores: ArmScores) -> list[str]:
    """The splits without a perplexity; an arm that has one is no reference."""
    return [name for name in scores.texts if perplexity(parts(scores, name)) >= WORST]


def parts(scores: ArmScores, name: str) -> list[Scored]:
    """The scored parts of a split, or of all; a log likelihood of 0 is no score."""
    chosen_texts = scores.texts.values() if name == ALL else [scores.texts[name]]
    return [Scored(one.log_likelihood or math.nan, one.tokens) for text in chosen_texts for one in text]
