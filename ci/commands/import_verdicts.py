"""``python -m ci import-verdicts``: turn a verdict file of the field into records."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci.commands import review
from ci.errors import ExitCode, UsageError
from ci.report.words import plain
from ci.results.field_verdicts import PUBLISHED, FieldVerdicts, head_of, read_field_verdicts, records_of
from ci.results.files import write_report
from ci.results.jsonl import encode, is_slug

EPILOG = """\
examples:
  python -m ci import-verdicts verdicts.jsonl --lane rtx4090
  python -m ci import-verdicts verdicts-3090.jsonl --lane rtx3090 --to their-run.jsonl

The file's rows are shown as they are. They are never compared with another lane.
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "import-verdicts",
        help="turn a verdict file of the field into records",
        description="Read the numerical check's own verdict file (JSON lines); write its values as records.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="the verdict file")
    parser.add_argument("--lane", required=True, help="the lane whose machine wrote it")
    parser.add_argument("--to", type=Path, help="default: out/imported/LANE/oracle.jsonl")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Read, write and show; a row that is not ok is a regression of whoever wrote the file."""
    if not is_slug(args.lane):
        raise UsageError(f"--lane {args.lane!r}: a lane is named with a-z, 0-9, '.', '_' and '-'")
    verdicts = read_field_verdicts(args.file)
    target = args.to or review.out_folder("imported", args.lane) / "oracle.jsonl"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--to {target}: {error.strerror}", remedy="name a file in a folder that can be written"
        ) from error
    started = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    records = records_of(verdicts)
    write_report(target, encode(head_of(verdicts, args.lane, started), records))
    Console(soft_wrap=True).print(table(verdicts, args.lane))
    bad = [row.case for row in verdicts.rows if not row.ok]
    print(f"{len(records)} records of {len(verdicts.rows)} cases written to {target}")
    if bad:
        print(f"verdict: regressed - the file itself calls {plain(', '.join(bad))} not ok (exit 1)")
        return ExitCode.REGRESSED
    absent = [case for case in PUBLISHED if case not in {row.case for row in verdicts.rows}]
    if absent:
        print(f"verdict: missing - the file has no row for {', '.join(absent)} (exit 2)")
        return ExitCode.NO_VERDICT
    print(f"verdict: pass - {len(verdicts.rows)} of {len(verdicts.rows)} imported cases are ok (exit 0)")
    return ExitCode.PASS


def table(verdicts: FieldVerdicts, lane: str) -> Table:
    """The rows as published, at the launcher."""
    shown = Table(title=f"imported for {lane}", title_justify="left")
    for column in ("case", "reason, flag 1", "2D vs 3D", "reference 2D", "reference 3D", "magnitude", "ok"):
        shown.add_column(column, overflow="fold")
    for row in verdicts.rows:
        numbers = (row.max_abs_diff_2d_vs_3d, row.ref_max_abs_2d, row.ref_max_abs_3d, row.out_max_abs)
        reasons = row.reasons_3d if isinstance(row.reasons_3d, str) else ",".join(row.reasons_3d or ())
        cells = ["" if number is None else f"{number:.4f}" for number in numbers]
        shown.add_row(Text(plain(row.case)), Text(plain(reasons)), *cells, "yes" if row.ok else "NO")
    return shown
