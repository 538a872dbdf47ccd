"""``python -m ci stack``: build, verify, list and find arms."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich import progress as bars
from rich.console import Console
from rich.table import Table

from ci.errors import ExitCode
from ci.stack.arms import Arm, Build, arm_folder, build, find_arm
from ci.stack.cache import cache_root
from ci.stack.pin import PIN
from ci.stack.place import Placement
from ci.stack.plan import ArmPlan, choose_plans, plan_arms
from ci.stack.record import Flavour
from ci.stack.series import SERIES_VARIABLE, Series, read_series, series_folder
from ci.stack.verify import Verification, verify_arm

EXAMPLES = f"""\
examples:
  python -m ci stack build                              every arm of our own series
  python -m ci stack build --flavour full               with the compiled kernels, for a machine with a GPU
  python -m ci stack build --series ~/patches           somebody else's patches on the same pin
  python -m ci stack verify                             hash every file of every arm again
  PYTHONPATH=$(python -m ci stack path --arm packed) python -c 'import vllm'

A folder of patches may also be named with {SERIES_VARIABLE}; the cache with FORKPROOF_CACHE.
"""
SHORT = 12
"""Characters of a hash that are shown."""
MAX_NAMED = 20
"""Files that verify names per arm."""
MB = 1_000_000


def add(subparsers: Any) -> None:  # noqa: ANN401  # argparse has no public name for it
    """Register ``stack`` and its four actions."""
    parser = subparsers.add_parser(
        "stack",
        help="build the arms: the pinned wheel plus prefixes of the series",
        description=f"Arms are trees of vLLM {PIN.vllm}: the stock wheel plus a prefix of the patch series.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _action(actions, "build", "build arms, or find them whole in the cache", run_build, many=True)
    _action(actions, "verify", "hash arms again and name every file that differs", run_verify, many=True)
    _action(actions, "list", "show the series and its arms", run_list, many=True)
    _action(actions, "path", "print the folder to put first on PYTHONPATH", run_path, many=False)


def _action(
    actions: Any,  # noqa: ANN401
    name: str,
    text: str,
    run: Callable[[argparse.Namespace], ExitCode],
    *,
    many: bool,
) -> argparse.ArgumentParser:
    action: argparse.ArgumentParser = actions.add_parser(
        name,
        help=text,
        description=text,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words = "arm to take; may be given again (default: all)" if many else "arm (default: the whole series)"
    action.add_argument("--arm", metavar="NAME", action="append" if many else "store", help=words)
    action.add_argument("--series", metavar="DIR", help="folder of patches (default: patches/)")
    flavours = [flavour.value for flavour in Flavour]
    action.add_argument(
        "--flavour", choices=flavours, default=Flavour.LEAN.value,
        help="lean: .py files and metadata (default); full: the whole wheel",
    )  # fmt: skip
    action.set_defaults(func=run)
    return action


def run_build(args: argparse.Namespace) -> ExitCode:
    """Build arms and say what they are made of."""
    console = _console()
    with ConsoleProgress(Console(stderr=True)) as progress:
        done = build(series_folder(args.series), None, Flavour(args.flavour), args.arm, progress)
    print_build(done, console)
    _last_line(ExitCode.PASS, f"{_count(len(done.arms), 'arm')} ready in {done.seconds:.1f} s")
    return ExitCode.PASS


def run_verify(args: argparse.Namespace) -> ExitCode:
    """Hash arms again; any difference is no verdict."""
    cache, flavour = cache_root(), Flavour(args.flavour)
    _, plans = _plans(args)
    checked = [verify_arm(plan, cache, flavour) for plan in plans]
    print_verification(checked, _console())
    bad = [item for item in checked if item.differences]
    if not bad:
        files = sum(item.files for item in checked)
        _last_line(ExitCode.PASS, f"{_count(len(checked), 'arm')} as built, {files:,} files hashed")
        return ExitCode.PASS
    print("remedy: python -m ci stack build   (makes a changed arm anew)")
    _last_line(ExitCode.NO_VERDICT, f"changed since it was built: {', '.join(item.name for item in bad)}")
    return ExitCode.NO_VERDICT


def run_list(args: argparse.Namespace) -> ExitCode:
    """Show the patches of the series and the arms, built or not."""
    series, plans = _plans(args)
    console, cache = _console(), cache_root()
    print_patches(series, console)
    table = _table("arm", "patches", "series hash", "built", "folder")
    for plan in plans:
        folder = arm_folder(plan, PIN, Flavour(args.flavour), cache)
        built = "yes" if folder.is_dir() else "no"
        table.add_row(plan.name, str(len(plan.patches)), plan.series_hash[:SHORT], built, str(folder))
    console.print(table)
    return ExitCode.PASS


def run_path(args: argparse.Namespace) -> ExitCode:
    """Print one arm's folder, and nothing else, on stdout."""
    with ConsoleProgress(Console(stderr=True)) as progress:
        folder = series_folder(args.series)
        print(find_arm(args.arm, folder, None, Flavour(args.flavour), progress).root)
    return ExitCode.PASS


# --- what is shown -------------------------------------------------------------------------------


def print_build(done: Build, console: Console) -> None:
    """Wheel, patches with their offsets, and arms."""
    print_patches(done.series, console)
    console.print(f"wheel   vllm {PIN.vllm}, {done.stock.flavour.value}: {_origin(done)}")
    for note in done.stock.notes:
        console.print(f"  note: {note}")
    for line in offset_lines(done.placements):
        console.print(line)
    table = _table("arm", "patches", "series hash", "changed files", "state", "folder")
    for arm in done.arms:
        table.add_row(*_arm_row(arm))
    console.print(table)


def print_patches(series: Series, console: Console) -> None:
    """The patches of a series in order, with both hashes."""
    if series.note:
        console.print(f"note: {series.note}")
    table = _table("#", "patch", "files", "hunks", "hunk hash", "file hash")
    for number, patch in enumerate(series.patches, start=1):
        hunks = sum(len(change.hunks) for change in patch.changes)
        files = len({path for change in patch.changes for path in change.paths})
        hashes = (patch.hunk_hash[:SHORT], patch.file_hash[:SHORT])
        table.add_row(str(number), patch.name, str(files), str(hunks), *hashes)
    console.print(table)


def offset_lines(placements: Sequence[Placement]) -> list[str]:
    """One line for every hunk that was not on its stated line, after one that counts them."""
    if not placements:
        return ["hunks   none to find: no existing file is changed"]
    moved = [placement for placement in placements if placement.offset]
    if not moved:
        return [f"hunks   {len(placements)} found, each on its stated line"]
    patches = ", ".join(f"{name} {count}" for name, count in Counter(item.patch for item in moved).items())
    lines = [f"hunks   {len(placements)} found, {len(moved)} at an offset ({patches}):"]
    return lines + [
        f"  {item.patch}, {item.file}, hunk {item.hunk}: line {item.found} instead of {item.stated} "
        f"(offset {item.offset:+d})"
        for item in moved
    ]


def print_verification(checked: Sequence[Verification], console: Console) -> None:
    """One line per arm, and one per file that differs."""
    for item in checked:
        state = (
            "as built" if not item.differences else f"{_count(len(item.differences), 'file')} not as built"
        )
        console.print(f"{item.name:<14} {item.files:>6,} files  {state}  {item.root}")
        for difference in item.differences[:MAX_NAMED]:
            console.print(f"  {difference.kind.value:<8} {difference.path}")
        if len(item.differences) > MAX_NAMED:
            console.print(f"  ... and {len(item.differences) - MAX_NAMED} more")


class ConsoleProgress:
    """Shows progress on stderr: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar = bars.Progress(
            bars.TextColumn("{task.description}"), bars.BarColumn(), bars.TaskProgressColumn(),
            console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self.task: bars.TaskID | None = None

    def __enter__(self) -> ConsoleProgress:
        self.bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        """One line."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def begin(self, what: str, total: int) -> None:
        """Start a bar; without a terminal, say what begins."""
        self.end()
        size = f" ({total / MB:.1f} MB)" if total > MB else ""
        if not self.console.is_terminal and size:
            self.say(f"{what}{size}")
        self.task = self.bar.add_task(f"{what}{size}", total=total or None)

    def advance(self, amount: int) -> None:
        """Move the bar."""
        if self.task is not None:
            self.bar.advance(self.task, amount)

    def end(self) -> None:
        """Take the bar away."""
        if self.task is not None:
            self.bar.remove_task(self.task)
            self.task = None


# --- small things --------------------------------------------------------------------------------


def _plans(args: argparse.Namespace) -> tuple[Series, tuple[ArmPlan, ...]]:
    series = read_series(series_folder(args.series))
    return series, choose_plans(plan_arms(series), args.arm)


def _origin(done: Build) -> str:
    counted, seconds = done.stock.counted, done.stock.seconds
    if counted.requests:
        return f"{counted.bytes / MB:.1f} MB in {_count(counted.requests, 'request')}, {seconds:.1f} s"
    return (
        f"from a wheel on this machine, {seconds:.1f} s" if seconds else "from the cache, every file hashed"
    )


def _arm_row(arm: Arm) -> tuple[str, ...]:
    names = sorted(Path(path).name for path in arm.manifest.files)
    state = "in the cache" if arm.reused else "built"
    hashed = arm.manifest.series_hash[:SHORT]
    return arm.name, str(len(arm.manifest.patches)), hashed, "\n".join(names) or "none", state, str(arm.root)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _console() -> Console:
    """Plain text of full width when piped, so that no path is cut."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    return (
        console if console.is_terminal else Console(highlight=False, markup=False, soft_wrap=True, width=400)
    )


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column, overflow="fold", no_wrap=column in {"series hash", "hunk hash", "file hash", "arm"}
        )
    return table


def _last_line(code: ExitCode, detail: str) -> None:
    word = "pass" if code is ExitCode.PASS else "no verdict"
    sys.stdout.flush()
    print(f"verdict: {word} - {detail} (exit {int(code)})")
