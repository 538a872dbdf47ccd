"""``python -m ci repin VERSION``: the pin, moved in one step or not at all."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from ci.commands import review
from ci.commands.drift import MB, show
from ci.commands.stack import ConsoleProgress
from ci.errors import ExitCode, GateError
from ci.report.repin import Row, render_repin
from ci.results.aa import AA_FILE
from ci.results.drift import PatchState
from ci.results.files import write_all, write_atomic
from ci.results.jsonl import encode, read_baseline
from ci.results.records import Remeasure
from ci.stack.cache import cache_root
from ci.stack.pin import PIN_FILE, parse_pin
from ci.stack.repin import Move, locked_versions, pin_text, read_move
from ci.stack.series import read_series, series_folder

LOCKS = ("torch", "stack")
EPILOG = """\
examples:
  python -m ci repin 0.28.0 --dry-run     what it would mean; nothing changes
  python -m ci repin 0.28.0               move it

In one step, or not at all:
  ci/stack/pin.toml     version, wheel, both hashes, torch and triton of that release
  baselines/*/*.jsonl   marked: every suite of every lane is red until it was measured on the new
                        version and accepted as a whole
Written besides: out/repin/repin.md, what became of each patch and what is left to do.
Refused while those files have changes that are not committed, so that `git checkout -- ci/stack/pin.toml
baselines` takes the step back. Needs an index that states hashes and answers range requests; a few
MB are read. Ends with 1 if a patch conflicts with the new release. See docs/move-the-pin.md.
"""


class DirtyError(GateError):
    """Files that would be written have changes of their own, or nobody can tell."""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "repin",
        help="move the pin to another vLLM release",
        description="Move the pin to another vLLM release, and mark every baseline for measuring anew.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("version", metavar="VERSION", help="the release, as pip prints it, such as 0.28.0")
    parser.add_argument("--dry-run", action="store_true", help="write the report and nothing else")
    parser.add_argument("--series", metavar="DIR", help="folder of patches (default: patches/)")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Read everything first, then write everything."""
    baselines = review.default_baselines()
    if not args.dry_run:
        refuse_dirty([PIN_FILE, baselines])
    before = parse_pin(PIN_FILE.read_text(encoding="utf-8"))
    series = read_series(series_folder(args.series))
    locks = [(review.ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8") for name in LOCKS]
    with ConsoleProgress(Console(stderr=True)) as progress:
        move = read_move(args.version, series, before, cache_root(), progress, locked_versions(*locks))
    files = marked_baselines(baselines, move)
    # The pin comes last: a kill in between leaves the old pin and marks, which are red.
    files[PIN_FILE] = pin_text(PIN_FILE.read_text(encoding="utf-8"), move.after).encode()
    steps = left_to_do(move, sorted(files.keys() - {PIN_FILE}))
    title = f"The pin {'would move' if args.dry_run else 'moves'} from {before.vllm} to {args.version}"
    page = review.out_folder("repin") / "repin.md"
    write_atomic(page, render_repin(title, rows(move), move.fate, steps).encode())
    if not args.dry_run:
        write_all(files)
    say(move, steps, page)
    return conclude(move, len(files) - 1, dry_run=args.dry_run)


def refuse_dirty(paths: Sequence[Path]) -> None:
    """Refuse to write over what is in no commit.

    Raises:
        DirtyError: a file has changes, or git cannot say.
    """
    command = ["git", "-C", str(review.ROOT), "status", "--porcelain", "--untracked-files=all", "--"]
    done = subprocess.run(
        [*command, *(str(path.absolute()) for path in paths)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise DirtyError(
            f"git cannot say whether anything changed: {done.stderr.strip()[:200]}",
            remedy="move the pin in a clone, so that the step can be reviewed and taken back",
        )
    changed = [line[3:] for line in done.stdout.splitlines()]
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise DirtyError(
            f"changed and not committed: {', '.join(changed[:3])}{more}",
            cause="the step could not be told from these changes, nor taken back without them",
            remedy="commit or revert them first; git status",
        )


def marked_baselines(folder: Path, move: Move) -> dict[Path, bytes]:
    """Every baseline with its mark, by file.

    Raises:
        RecordsError: a baseline cannot be read.
    """
    mark = Remeasure(move.after.vllm, f"the pin moved from vllm {move.before.vllm} to {move.after.vllm}")
    marked = {}
    for path in sorted(folder.glob("*/*.jsonl")):
        if path.name != AA_FILE:  # A/A sessions are noise under conditions of their own
            baseline = read_baseline(path)
            head = msgspec.structs.replace(baseline.head, remeasure=mark)
            marked[path] = encode(head, baseline.records)
    return marked


def rows(move: Move) -> list[Row]:
    """The pin, value by value."""
    before, after = move.before, move.after
    return [
        ("vllm", before.vllm, after.vllm),
        ("wheel", before.wheel, after.wheel),
        ("wheel's sha256", before.wheel_sha256, after.wheel_sha256),
        ("RECORD's sha256", before.record_sha256, after.record_sha256),
        ("torch", before.torch, after.torch),
        ("triton", before.triton, after.triton),
    ]


def left_to_do(move: Move, marked: Sequence[Path]) -> list[str]:
    """What a person does next, in order."""
    version, fates = move.after.vllm, move.fate.patches
    named = {state: [fate.patch for fate in fates if fate.state is state] for state in PatchState}
    steps = []
    if names := named[PatchState.CONFLICTS]:
        steps.append(f"redo for {version}, hunk by hunk as listed above: {', '.join(names)}")
    if names := named[PatchState.UPSTREAM]:
        steps.append(f"take out of patches/series, since {version} has it: {', '.join(names)}")
    if names := named[PatchState.OFFSET]:
        steps.append(f"may stay as it is, though its lines moved: {', '.join(names)}")
    for one in move.unmet:
        steps.append(f"{lock_of(one.package)}: {one.package} {one.locked}, vllm {version} wants {one.wanted}")
    if move.unmet:
        steps.append("nox -s lock, once the lines above are right")
    steps.append("nox -s build; a build of the full flavour checks the whole wheel's sha256 as well")
    lanes: dict[str, list[str]] = {}
    for path in marked:
        lanes.setdefault(path.parent.name, []).append(path.stem)
    for lane, suites in lanes.items():
        words = f"nox -s {' '.join(suites)}" + ("" if lane == review.DEFAULT_LANE else f" -- --lane {lane}")
        steps.append(f'{words}, then nox -s accept -- --lane {lane} --why "vllm {version}"')
    return steps


def lock_of(package: str) -> str:
    """Where a version is chosen by hand."""
    return "locks/torch.txt" if package == "torch" else "locks/stack.in"


def say(move: Move, steps: Sequence[str], page: Path) -> None:
    """Show it."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for what, before, after in rows(move):
        console.print(f"{what:<16}{after if before == after else f'{before} -> {after}'}")
    console.print()
    show([move.fate], console)
    console.print("\nleft to do:")
    for number, step in enumerate(steps, start=1):
        console.print(f"  {number}. {step}")
    transfer = f"{move.counted.bytes / MB:.1f} MB in {move.counted.requests} requests"
    console.print(f"\n{transfer}; the page: {page}")


def conclude(move: Move, marked: int, *, dry_run: bool) -> ExitCode:
    """The last line: a series that conflicts with its pin is a regression, as in ``drift``."""
    conflicts = [fate.patch for fate in move.fate.patches if fate.state is PatchState.CONFLICTS]
    code = ExitCode.REGRESSED if conflicts else ExitCode.PASS
    done = "would move" if dry_run else "moved"
    words = f"pin {done} from {move.before.vllm} to {move.after.vllm}, {marked} baselines "
    words += "would be marked" if dry_run else "marked for measuring anew"
    words += f"; {len(conflicts)} of {len(move.fate.patches)} patches conflict" if conflicts else ""
    print(f"verdict: {'regressed' if conflicts else 'pass'} - {words} (exit {int(code)})")
    return code
