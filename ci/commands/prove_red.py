"""``python -m ci prove-red``: damage one thing at a time and see that the gate says so."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.commands import review
from ci.commands.diff import diff
from ci.errors import ExitCode, GateError, UsageError
from ci.gate.policy import Kind
from ci.gate.rows import Cause
from ci.gate.values import judge as judge_value
from ci.gate.verdict import verdict_word
from ci.proof.checkout import Checkout
from ci.proof.damage import Damage
from ci.proof.damages import DAMAGES
from ci.proof.rules import GateRule
from ci.report.console import render_console
from ci.results.aa import AA_FILE
from ci.results.files import write_report
from ci.results.jsonl import read_baseline
from ci.results.records import Scalar

CONSOLE_WIDTH = 400
"""Wide enough that no cell of the sample is folded."""
EXAMPLES = """\
examples:
  python -m ci prove-red                             all damages, in seconds
  python -m ci prove-red --write docs/prove-red.md   also the table
  python -m ci prove-red junit                       those whose name contains the word
"""


class BaseNotGreenError(GateError):
    """The undamaged checkout does not pass, so that no damage could prove anything."""


@dataclass(frozen=True)
class Outcome:
    """What the gate said about one checkout."""

    word: str
    code: ExitCode
    text: str
    causes: frozenset[Cause] = frozenset()


@dataclass(frozen=True)
class Proof:
    """A damage, what followed, and what is wrong with that (empty: caught for the right reason)."""

    damage: Damage
    outcome: Outcome
    problem: str


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "prove-red",
        help="damage one thing at a time and see that the gate says so",
        description="Break a small green checkout in every way that a rule of the gate is about. Exit code 3 "
        "if one damage is not noticed, or for another reason than its own.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("word", nargs="?", default="", help="only damages whose name contains this")
    parser.add_argument("--baselines", type=Path, help="default: baselines")
    parser.add_argument("--write", type=Path, help="write the table of damages to this file")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Prove every chosen damage; anything not caught is exit code 3."""
    chosen = [damage for damage in DAMAGES if args.word in damage.name]
    if not chosen:
        raise UsageError(f"no damage has {args.word!r} in its name", remedy="python -m ci prove-red")
    proofs = prove(chosen)
    if args.write is not None:
        write_report(args.write, render_damages(DAMAGES).encode())
    judged, deaf = moved_baselines(args.baselines or review.default_baselines())
    for proof in proofs:
        review.say(f"{'NOT CAUGHT' if proof.problem else 'caught':10} {_line(proof)}\n")
    for name in deaf:
        review.say(f"{'NOT CAUGHT':10} accepted value that may move freely: {name}\n")
    missed = sum(bool(proof.problem) for proof in proofs) + len(deaf)
    word, code = ("control failed", ExitCode.CONTROL_FAILED) if missed else ("pass", ExitCode.PASS)
    total = len(proofs) + judged
    review.say(f"{judged} accepted values of the baselines moved: {judged - len(deaf)} noticed\n")
    review.say(f"verdict: {word} - {total - missed} of {total} damages caught (exit {int(code)})\n")
    return code


def prove(damages: Sequence[Damage]) -> tuple[Proof, ...]:
    """Judge the undamaged checkout, then each damage on a fresh one.

    Raises:
        BaseNotGreenError: the undamaged checkout is not green.
    """
    with tempfile.TemporaryDirectory(prefix="forkproof-prove-red-") as folder:
        base = judge(Checkout(Path(folder, "base")).write())
        if base.code is not ExitCode.PASS:
            raise BaseNotGreenError(f"the undamaged checkout is {base.word}:\n{base.text}")
        return tuple(_prove(damage, Path(folder, str(number))) for number, damage in enumerate(damages))


def _prove(damage: Damage, root: Path) -> Proof:
    checkout = Checkout(root).write()
    damage.do(checkout)
    outcome = judge(checkout)
    return Proof(damage, outcome, _problem(damage, outcome))


def judge(checkout: Checkout) -> Outcome:
    """Return what ``python -m ci diff`` says and the code with which it ends."""
    try:
        verdict = diff(checkout.runs, checkout.baselines)
    except GateError as error:
        return Outcome("error", error.exit_code, str(error))
    outcome, code = verdict.outcome
    text = render_console(verdict, width=CONSOLE_WIDTH)
    return Outcome(verdict_word(outcome, code), code, text, frozenset(row.cause for row in verdict.rows))


def _problem(damage: Damage, outcome: Outcome) -> str:
    if (outcome.word, outcome.code) != (damage.word, damage.code):
        return f"it is {outcome.word} (exit {int(outcome.code)})"
    if damage.says not in outcome.text:
        return f"the output does not say {damage.says!r}"
    if outcome.word != "error" and not outcome.text.endswith(f"(exit {int(outcome.code)})\n"):
        return "the last line does not agree with the exit code"
    return ""


def moved_baselines(baselines: Path) -> tuple[int, list[str]]:
    """Move every accepted value of the checkout both ways; return how many, and those that no rule minds.

    Values of kind ``info`` are shown and never judged, those of kind ``ab`` are judged by their boots.
    """
    rules = review.load_rules(baselines)
    judged, deaf = 0, []
    for path in sorted(baselines.glob("*/*.jsonl")):
        if path.name == AA_FILE:
            continue
        for record in read_baseline(path).records:
            rule = rules.policy.rule_for(path.stem, record.case, record.metric)
            if rule is None or rule.kind in (Kind.INFO, Kind.AB) or record.value is None:
                continue
            judged += 1
            moved = (judge_value(rule, record.value, one, record.printed)[0] for one in _moved(record.value))
            if not any(verdict.exit_code is not ExitCode.PASS for verdict in moved):
                deaf.append(f"{path.parent.name}/{path.stem} {record.case} {record.metric}")
    return judged, deaf


def _moved(value: Scalar) -> tuple[Scalar, ...]:
    """Return values to either side of ``value``, far enough that no margin covers them."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int | float):
        return value * 3 + 1, value - abs(value) * 3 - 1
    return (f"{value}x",)


def _line(proof: Proof) -> str:
    wanted = f"{proof.damage.word} (exit {int(proof.damage.code)})"
    return f"{proof.damage.name}: {wanted}" + (f", but {proof.problem}" if proof.problem else "")


def render_damages(damages: Iterable[Damage]) -> str:
    """Return the page docs/prove-red.md: each rule of the gate with the damages that guard it."""
    many = list(damages)
    lines = [
        "# What must turn red",
        "",
        "Written by `nox -s prove-red`. Each line is one damage to a small checkout that passes, with the",
        "verdict and the exit code that must follow; `error` means that there can be no verdict. A damage",
        "has to be noticed for its own reason as well: the output must name it. The session also moves every",
        "value of the checkout's own baselines and asks the policy about it.",
        "",
        f"{len(many)} damages guard {len(GateRule)} rules.",
    ]
    for rule in GateRule:
        lines += ["", f"## {rule.value.rstrip('.')}", "", "| damage | verdict | exit |", "|---|---|---|"]
        lines += [f"| {one.name} | {one.word} | {int(one.code)} |" for one in many if one.rule is rule]
    return "\n".join(lines) + "\n"
