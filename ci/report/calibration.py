"""The page docs/calibration.md: simulated shares, the goals, and the published tables replayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ci.gate.ab import CONFIRM_ERROR, DETECTION_POWER, ERROR, percent
from ci.gate.calibration import AA_PAIRS, AA_SESSIONS, EFFECTS, MARGIN, NOISES, PAIRS, Scenario, Shares
from ci.gate.calibration_prompts import NOISE, PromptScenario, PromptShares, fewer
from ci.gate.policy import MIN_PAIRS
from ci.gate.replay import Replayed, replay
from ci.gate.usual import UsualRule
from ci.gate.verdict import Verdict

GOAL_NOISE, GOAL_PAIRS = 0.003, 8
REPLAY_HEADING = "## The published tables under this rule"
_HEAD_TEXT = """\
# How often the A/B comparison is right

Written by `nox -s calibrate` ({repeats} simulated comparisons per row, seed {seed}). The boots are
simulated; they are judged by the functions that judge real ones (`ci/gate/ab.py`).

Each comparison draws {sessions} stored A/A sessions of {pairs} pairs and one session in the order A B B A,
all with the same noise and the same disturbance. Margin {margin:.1%}. Looks after whole blocks, at most
four. A first `regressed` is held until a fresh session, drawn alike, confirms it. Error rates: {error:.0%}
for each one-sided claim of a session over all of its looks, {confirm:.0%} for the confirmation. The
smallest detectable loss that every verdict prints is the one that is found in {power:.0%} of cases. Noise
is the standard deviation of one boot.

The policy offers even limits from {least} pairs on. Half a block would leave a drift in the mean. With two
pairs, a patch that loses exactly the margin on a lane where one boot in ten is slower is accused in up to
{worst:.1%} of cases after both stages, more than the goal allows, because two pairs cannot show that a boot
was an outlier; the rows of two pairs are shown for that reason and no goal counts them.
"""
_DISTURBED_TEXT = """\
A boot that is now and then much slower makes the A/A sessions wide as well, so the comparison ends open
instead of accusing somebody."""
_PROMPTS_TEXT = """\
A session times every prompt in each boot. It ends when one prompt is certainly slower or all are decided,
and the fresh session answers for those that came out slower. Noise {noise:.1%}, of each prompt its own; at
most {pairs} pairs; {repeats} sessions per row. `pass` is said when every prompt passes, `regressed` when one
is confirmed. The error rates are each prompt's: with more prompts, more often one of them stays open, and one
of those that lose exactly the margin is accused. Real prompts share the noise of their boot, so their
sessions lie between this and one prompt's. Another judged metric, like prefill, counts as more prompts."""
_USUAL_TEXT = """\
Share of comparisons that each rule calls slower. A fixed threshold at the margin accuses healthy patches
when boots are few or noisy, and half of those that lose exactly the margin. Tests against zero (one-sided,
5%) accuse more harmless differences the more boots there are, and Mann-Whitney cannot reject at all with
two boots per arm: the best of its six orders has p = 1/6. None of them tells a pass from too little data."""
_REPLAY_TEXT = """\
Per-boot values are not published, so every reading that the printed numbers allow is judged, and a verdict
is given only where all of them agree. The boots alternated A B A B, so a linear drift would not have
cancelled. Published spreads are ranges of 2 to 4 boots, not standard deviations."""


@dataclass(frozen=True)
class Goal:
    """One promise of the comparison, and what came out."""

    text: str
    wanted: str
    got: str
    met: bool


@dataclass(frozen=True)
class Calibration:
    """All simulated rows."""

    shares: Mapping[Scenario, Shares]
    prompts: Mapping[PromptScenario, PromptShares]
    usual: Mapping[tuple[UsualRule, Scenario], float]
    repeats: int
    seed: int


def goals(shares: Mapping[Scenario, Shares]) -> tuple[Goal, ...]:
    """Return the goals at 0.3% noise, 0.5% margin and at most eight pairs, with what was simulated."""
    healthy, loss = (shares[Scenario(effect, GOAL_NOISE, GOAL_PAIRS)] for effect in (0.0, -0.01))
    alarms = {
        row: one.final.get(Verdict.REGRESSED, 0.0)
        for row, one in shares.items()
        if row.effect >= -MARGIN and row.pairs >= MIN_PAIRS
    }
    worst = max(alarms, key=lambda row: alarms[row])
    saved = [1 - one.mean_pairs / GOAL_PAIRS for one in (healthy, loss)]
    passed, found = healthy.final.get(Verdict.PASS, 0.0), loss.final.get(Verdict.REGRESSED, 0.0)
    return (
        Goal("a healthy patch passes", "at least 90%", _share(passed), passed >= 0.9),
        Goal("a true -1% is found, confirmation included", "at least 90%", _share(found), found >= 0.9),
        Goal(
            f"false alarms after both stages, worst of all {len(alarms)} rows at 0 and -0.5%",
            "at most 1%",
            f"{_share(alarms[worst])} ({_name(worst)})",
            alarms[worst] <= 0.01,
        ),
        Goal(
            "pairs saved against eight fixed ones, healthy and at -1%",
            "at least 30%",
            " and ".join(_share(one) for one in saved),
            min(saved) >= 0.3,
        ),
    )


def render_calibration(calibration: Calibration) -> str:
    """Return the whole page."""
    parts = [
        _head(calibration),
        _goals(goals(calibration.shares)),
        _disturbed(calibration.shares),
        _by_pairs(calibration.shares),
        _prompts(calibration),
        _usual(calibration),
        render_replay(replay()),
    ]
    return "\n".join(parts)


def render_replay(replayed: Iterable[Replayed]) -> str:
    """Return the section on the published tables, which needs no simulation."""
    lines = [
        REPLAY_HEADING,
        "",
        f"Margin {MARGIN:.1%}, one look, no A/A sessions. {_REPLAY_TEXT}",
        "",
        "| table | printed | effect, plus is better | interval | would have seen | verdict | why |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_replay_line(one) for one in replayed]
    return "\n".join(lines) + "\n"


def _replay_line(one: Replayed) -> str:
    seen = [estimate.detectable for estimate in one.estimates if estimate.detectable is not None]
    lower = [estimate.lower for estimate in one.estimates if estimate.lower is not None]
    upper = [estimate.upper for estimate in one.estimates if estimate.upper is not None]
    effects = sorted(
        {percent(estimate.effect) for estimate in one.estimates}, key=lambda text: float(text[:-1])
    )
    interval = f"[{percent(min(lower))}, {percent(max(upper))}]" if lower else "none"
    bounds = sorted({percent(value)[1:] for value in (max(seen), min(seen))}) if seen else []
    return (
        "| "
        + " | ".join(
            (
                one.published.name,
                one.published.numbers,
                " to ".join(dict.fromkeys((effects[0], effects[-1]))) if effects else "0%, to the resolution",
                interval,
                f"a loss of {' to '.join(bounds)}" if bounds else "unknown",
                one.verdict.value,
                one.published.remark,
            )
        )
        + " |"
    )


def _head(calibration: Calibration) -> str:
    return _HEAD_TEXT.format(
        repeats=calibration.repeats,
        seed=calibration.seed,
        sessions=AA_SESSIONS,
        pairs=AA_PAIRS,
        margin=MARGIN,
        error=ERROR,
        confirm=CONFIRM_ERROR,
        power=DETECTION_POWER,
        least=MIN_PAIRS,
        worst=max(
            one.final.get(Verdict.REGRESSED, 0.0)
            for row, one in calibration.shares.items()
            if row.effect >= -MARGIN and row.pairs < MIN_PAIRS
        ),
    )


def _goals(rows: Iterable[Goal]) -> str:
    lines = [
        "## Goals",
        "",
        f"At noise {GOAL_NOISE:.1%}, margin {MARGIN:.1%}, at most {GOAL_PAIRS} pairs.",
        "",
        "| goal | wanted | simulated | met |",
        "|---|---|---|---|",
    ]
    lines += [f"| {row.text} | {row.wanted} | {row.got} | {'yes' if row.met else '**no**'} |" for row in rows]
    return "\n".join(lines) + "\n"


_COLUMNS = "first: pass | regressed (held) | open | final: pass | improved | regressed | open | mean pairs |"


def _disturbed(shares: Mapping[Scenario, Shares]) -> str:
    lines = [
        f"## At most {max(PAIRS)} pairs, with every disturbance",
        "",
        _DISTURBED_TEXT,
        "",
        f"| disturbance | noise | true effect | {_COLUMNS}",
        "|---" * 11 + "|",
    ]
    lines += [
        f"| {row.disturbance.name} | {row.noise:.1%} | {row.effect:.1%} | {_cells(one)} |"
        for row, one in shares.items()
        if row.pairs == max(PAIRS)
    ]
    return "\n".join(lines) + "\n"


def _by_pairs(shares: Mapping[Scenario, Shares]) -> str:
    lines = [
        "## By the limit of pairs, undisturbed",
        "",
        f"| pairs | noise | true effect | {_COLUMNS}",
        "|---" * 11 + "|",
    ]
    lines += [
        f"| {row.pairs} | {row.noise:.1%} | {row.effect:.1%} | {_cells(one)} |"
        for row, one in shares.items()
        if row.disturbance.name == "none" and row.pairs < max(PAIRS)
    ]
    return "\n".join(lines) + "\n"


def _prompts(calibration: Calibration) -> str:
    verdicts = (Verdict.PASS, Verdict.IMPROVED, Verdict.REGRESSED, Verdict.INCONCLUSIVE)
    lines = [
        "## Several prompts in one session",
        "",
        _PROMPTS_TEXT.format(noise=NOISE, pairs=max(PAIRS), repeats=fewer(calibration.repeats)),
        "",
        "| prompts | A/A sessions | true effect | pass | improved | regressed | open | mean boots |",
        "|---" * 8 + "|",
    ]
    for row, one in calibration.prompts.items():
        shares = [_share(one.verdicts.get(verdict, 0.0)) for verdict in verdicts]
        cells = [
            f"{row.prompts}",
            f"{row.aa_sessions}",
            f"{row.effect:.1%}",
            *shares,
            f"{one.mean_boots:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cells(one: Shares) -> str:
    first = (Verdict.PASS, Verdict.REGRESSED, Verdict.INCONCLUSIVE)
    final = (Verdict.PASS, Verdict.IMPROVED, Verdict.REGRESSED, Verdict.INCONCLUSIVE)
    cells = [_share(one.first.get(verdict, 0.0)) for verdict in first]
    cells += [_share(one.final.get(verdict, 0.0)) for verdict in final]
    return " | ".join([*cells, f"{one.mean_pairs:.1f}"])


def _usual(calibration: Calibration) -> str:
    effects = " | ".join(f"{effect:.1%}" for effect in EFFECTS)
    lines = [
        "## The usual rules on the same boots",
        "",
        _USUAL_TEXT,
        "",
        f"| rule | boots per arm | noise | {effects} |",
        "|---" * (3 + len(EFFECTS)) + "|",
    ]
    rows = dict.fromkeys((rule, row.pairs, row.noise) for rule, row in calibration.usual)
    for rule, boots, noise in rows:
        cells = [_share(calibration.usual[rule, Scenario(effect, noise, boots)]) for effect in EFFECTS]
        lines.append(f"| {rule.value} | {boots} | {noise:.1%} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _share(share: float) -> str:
    return f"{share:.1%}" if share < 0.995 or share == 1 else f"{share:.2%}"


def _name(row: Scenario) -> str:
    return f"{row.disturbance.name}, noise {row.noise:.1%}, effect {row.effect:.1%}, {row.pairs} pairs"


assert GOAL_NOISE in NOISES and GOAL_PAIRS in PAIRS  # noqa: S101, PT018 - the goals name simulated rows
