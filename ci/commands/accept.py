"""``python -m ci accept``: take results over as baselines, so that the git diff is the review."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from ci.commands import review
from ci.errors import ExitCode, UsageError
from ci.gate.acceptance import Accepted, AcceptError, accept_suite, new_aa_sessions
from ci.gate.verdict import Verdict, last_line
from ci.report.words import plain, show_value
from ci.results.aa import AA_FILE, encode_aa, read_aa
from ci.results.files import write_all
from ci.results.jsonl import encode
from ci.results.records import AaSession, Acceptance

MAX_REASON_CHARS = 500
EXAMPLES = """\
examples:
  python -m ci accept --why "first run on the new pin"
  python -m ci accept --suite property --case 'grid*' --why "grid extended"
  python -m ci accept --lane h200 --suite kernelbench --whole --why "another kernel"
  git diff baselines/                                what was accepted
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "accept",
        help="take results over as baselines",
        description="Write the results on disk into baselines/LANE/SUITE.jsonl. Values that still pass keep "
        "who accepted them and why; the others get this acceptance. Runs that cannot be trusted are refused.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--why", required=True, help="the reason, stored with every value that changes")
    parser.add_argument("--by", help="who accepts (default: git config user.name)")
    parser.add_argument("--lane", action="append", help="only this lane; may be given several times")
    parser.add_argument("--suite", action="append", help="only this suite; may be given several times")
    parser.add_argument("--case", default="*", help="only cases that match; * and ? are wildcards")
    parser.add_argument(
        "--whole", action="store_true", help="values that still pass too: all are then of the arm that ran"
    )
    parser.add_argument("--runs", type=Path, default=None, help="folder of the runs (default: out/runs)")
    parser.add_argument("--baselines", type=Path, help="default: baselines")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Accept all chosen suites or none, and say what changed."""
    acceptance = Acceptance(
        date=datetime.now(UTC).date().isoformat(),
        by=_one_line("--by", args.by or _git_user()),
        why=_one_line("--why", args.why),
    )
    rules = review.load_rules(args.baselines or review.default_baselines())
    runs = review.runs_folder(args.runs)
    chosen = _chosen(rules, runs, args.lane, args.suite)
    accepted, noise = [], []
    for lane, suite in chosen:
        files, verdict = review.review_suite(rules, runs / lane / suite, lane, suite, keep=None)
        one = accept_suite(files, verdict, rules.policy, args.case, acceptance, whole=args.whole)
        accepted.append((lane, suite, one))
        noise.append((lane, suite, new_aa_sessions(files, args.case, acceptance)))
    write_all(_files(rules, accepted, noise))
    for lane, suite, one in accepted:
        review.say(_describe(lane, suite, one))
    for lane, suite, sessions in noise:
        if sessions:
            review.say(f"{lane}/{suite}: {len(sessions)} A/A sessions added to {_aa_path(rules, lane)}\n")
    counts = {
        "values changed": sum(len(one.changes) for _, _, one in accepted),
        "A/A sessions added": sum(len(sessions) for _, _, sessions in noise),
    }
    done = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
    end = f"{done}; review them with: git diff {rules.folder}" if done else "nothing changed"
    review.say(last_line(Verdict.PASS, f"accepted: {end}", ExitCode.PASS) + "\n")
    return ExitCode.PASS


def _files(
    rules: review.Rules,
    accepted: Sequence[tuple[str, str, Accepted]],
    noise: Sequence[tuple[str, str, Sequence[AaSession]]],
) -> dict[Path, bytes]:
    """Return what is to be written: baselines that change, and the A/A files that get more sessions."""
    files = {
        rules.baseline_path(lane, suite): encode(one.baseline.head, one.baseline.records)
        for lane, suite, one in accepted
        if one.changes
    }
    added: dict[Path, list[AaSession]] = {}
    for lane, _, sessions in noise:
        added.setdefault(_aa_path(rules, lane), []).extend(sessions)
    return files | {path: encode_aa([*read_aa(path), *more]) for path, more in added.items() if more}


def _aa_path(rules: review.Rules, lane: str) -> Path:
    return rules.folder / lane / AA_FILE


def _chosen(
    rules: review.Rules, runs: Path, lanes: list[str] | None, suites: list[str] | None
) -> list[tuple[str, str]]:
    """Return the suites to accept: those asked for, else those that have run."""
    chosen = []
    looked_at = review.chosen_lanes(rules, runs, lanes)
    for suite in suites or ():
        _check_suite(rules, runs, looked_at, suite)
    for lane in looked_at:
        known = review.suites_of(rules, runs, lane)
        present = set(review.subfolders(runs / lane))
        if not suites:
            for suite in known:
                if suite not in present:
                    review.say(f"{lane}/{suite}: has not run, stays as it is\n")
        # A suite that was asked for is only left out on a lane that was not: it may run elsewhere.
        wanted = present if not suites else set(suites) if lanes else present & set(suites)
        chosen += [(lane, suite) for suite in known if suite in wanted]
    if not chosen:
        raise AcceptError(
            "there is no run to accept", remedy="run a suite first: python -m ci run property pool"
        )
    return chosen


def _check_suite(rules: review.Rules, runs: Path, lanes: list[str], suite: str) -> None:
    """Refuse a suite that none of the lanes knows."""
    known = list(dict.fromkeys(one for lane in lanes for one in review.suites_of(rules, runs, lane)))
    if suite not in known:
        raise UsageError(
            f"suite {suite!r} is not known on lane {', '.join(lanes)}", remedy=f"one of: {', '.join(known)}"
        )


def _describe(lane: str, suite: str, accepted: Accepted) -> str:
    lines = [f"{lane}/{suite}: {len(accepted.changes)} changed, {accepted.kept} kept"]
    lines += [
        f"  {change.step.value:9} {plain(change.case)} {plain(change.metric)}: "
        f"{show_value(change.before)} -> {show_value(change.after)}"
        for change in accepted.changes
    ]
    return "\n".join(lines) + "\n"


def _one_line(option: str, text: str) -> str:
    text = text.strip()
    if not text or len(text) > MAX_REASON_CHARS or not text.isprintable():
        raise UsageError(
            f"{option} must be one line of 1 to {MAX_REASON_CHARS} printable characters",
            remedy=f'{option} "new pin"' if option == "--why" else f'{option} "Your Name"',
        )
    return text


def _git_user() -> str:
    try:
        done = subprocess.run(
            ["git", "config", "user.name"], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
