"""``python -m ci drift``: the series against every vLLM release since the pin."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from ci.commands import review
from ci.commands.stack import ConsoleProgress
from ci.errors import ExitCode
from ci.report.drift import details, drift_table, headline, render_drift
from ci.results.drift import OPEN, HunkState, PatchState, ReleaseFate
from ci.results.files import append, write_atomic
from ci.results.jsonl import write_results
from ci.results.records import SCHEMA_VERSION, Record, RunHead, Subject
from ci.stack.cache import cache_root
from ci.stack.pin import PIN
from ci.stack.plan import choose_plan, plan_arms
from ci.stack.radar import Seen, scan
from ci.stack.releases import check_version, releases_since
from ci.stack.series import Series, read_series, series_folder

EPILOG = """\
examples:
  python -m ci drift                          every release since the pin
  python -m ci drift --release 0.28.0         one release, whether or not pip lists it
  python -m ci drift --series ~/patches       somebody else's patches
  python -m ci drift --strict                 exit 1 if the newest release conflicts

Only the files that the series touches are fetched, by range requests, and checked against the
wheel's own list; a judged release is kept in the cache. Written to out/drift/: drift.md,
drift.json, records.jsonl.
"""
MB = 1_000_000


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "drift",
        help="hold the series against every vLLM release since the pin",
        description="Show where each patch applies, has moved, conflicts, or is upstream already.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--series", metavar="DIR", help="folder of patches (default: patches/)")
    parser.add_argument(
        "--release", metavar="VERSION", action="append", default=[], help="judge this one; may be repeated"
    )
    parser.add_argument("--strict", action="store_true", help="regressed if the newest release conflicts")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="append the page to FILE as well")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Judge the releases, show and store what came out."""
    started, cache = time.monotonic(), cache_root()
    series = read_series(series_folder(args.series))
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with ConsoleProgress(Console(stderr=True)) as progress:
        progress.say("asking pip for the releases" if not args.release else "asking pip for the wheels")
        versions = [check_version(text) for text in args.release] or releases_since(PIN, cache)
        seen = scan(series, versions, PIN, cache, progress)
    fates = [one.fate for one in seen]
    show(fates, console)
    console.print(cost(seen, time.monotonic() - started))
    write_reports(review.out_folder("drift"), series, fates, args.summary)
    return conclude(fates, strict=args.strict)


def show(fates: Sequence[ReleaseFate], console: Console) -> None:
    """The table, and under it every hunk that somebody has to work on."""
    shown = drift_table(fates)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in shown.columns:
        table.add_column(column, overflow="fold")
    for row in shown.rows:
        table.add_row(*row)
    if not console.is_terminal:
        console.width = 200
    console.print(table)
    for line in details(fates):
        console.print(line)


def cost(seen: Sequence[Seen], seconds: float) -> str:
    """What it took."""
    fetched = sum(one.counted.bytes for one in seen)
    requests = sum(one.counted.requests for one in seen)
    cached = sum(one.cached for one in seen)
    transfer = f"{fetched / MB:.1f} MB in {requests} requests"
    return f"{transfer}, {cached} of {len(seen)} releases from the cache, {seconds:.1f} s"


def write_reports(folder: Path, series: Series, fates: Sequence[ReleaseFate], summary: Path | None) -> None:
    """Write the page, the data and the records."""
    page = render_drift(fates).encode()
    write_atomic(folder / "drift.md", page)
    write_atomic(folder / "drift.json", msgspec.json.format(msgspec.json.encode(fates), indent=1) + b"\n")
    write_results(folder / "records.jsonl", run_head(series), records(fates))
    if summary is not None:
        append(summary, page)


def run_head(series: Series) -> RunHead:
    """The head of the records: no machine matters here, so there is no condition but the pin."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    whole = choose_plan(plan_arms(series), None)
    return RunHead(
        schema=SCHEMA_VERSION,
        run=f"drift-{now.replace(':', '').lower()}",
        lane="cpu",
        suite="drift",
        started=now,
        subject=Subject(whole.name, whole.series_hash),
        conditions={"pin": PIN.vllm},
    )


def records(fates: Sequence[ReleaseFate]) -> list[Record]:
    """Counts per release and patch; None with its reason where a release could not be judged."""
    found = []
    for fate in fates:
        if fate.problem is not None:
            found.append(Record(fate.version, "conflicts", None, "hunks", reason=fate.problem[:300]))
        for patch in fate.patches:
            case = f"{fate.version}/{patch.patch}"
            counts = {
                "hunks": len(patch.hunks),
                "conflicts": patch.count(*OPEN),
                "offsets": patch.count(HunkState.OFFSET),
                "upstream": patch.count(HunkState.UPSTREAM),
            }
            found += [Record(case, metric, value, "hunks") for metric, value in counts.items()]
    return found


def conclude(fates: Sequence[ReleaseFate], *, strict: bool) -> ExitCode:
    """The verdict: a conflict with a later release is news, one with the pin is a regression."""
    code, words = ExitCode.PASS, headline(fates)
    red = [fate for fate in fates if fate.state is PatchState.CONFLICTS]
    if any(fate.problem is not None for fate in fates):
        code = ExitCode.NO_VERDICT
    if any(fate.version == PIN.vllm for fate in red) or (strict and red and red[-1] is fates[-1]):
        code = ExitCode.REGRESSED
    word = {ExitCode.PASS: "pass", ExitCode.REGRESSED: "regressed"}.get(code, "no verdict")
    print(f"verdict: {word} - {words} (exit {int(code)})")
    return code
