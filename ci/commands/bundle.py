"""``python -m ci bundle``: pack arms, suites and wheels for a GPU host without internet."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ci.commands import review
from ci.commands.stack import ConsoleProgress
from ci.errors import ExitCode, UsageError
from ci.gate.verdict import Verdict, last_line
from ci.lanes.bundle import (
    MIB,
    Contents,
    committed_tree,
    download_wheels,
    pack,
    uncommitted,
    write_parts,
)
from ci.lanes.fatbin import keep_architecture
from ci.lanes.run import ROOT, check_suite
from ci.stack.arms import find_arms_up_to
from ci.stack.cache import cache_root
from ci.stack.members import read_files
from ci.stack.pin import PIN
from ci.stack.record import Flavour

EPILOG = """\
examples:
  python -m ci bundle                                   arms, oracle and kernelbench, Python 3.12
  python -m ci bundle --host-has torch triton numpy     leave out what the host has
  python -m ci bundle --part-mib 60                     in parts; join them with cat
  python -m ci bundle --engine --architecture 90        for whole boots on an H100 or H200

on the host:
  cat bundle.tar.xz.part* | tar xJ && forkproof-bundle/run.sh oracle --lane h200
"""
ENGINE_EXTENSION = "vllm/_C_stable_libtorch.abi3.so"
"""What a whole engine needs beyond the attention kernels."""
HOST_HAS = ("torch", "triton", "numpy")


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "bundle",
        help="pack arms, suites and wheels for a GPU host without internet",
        description="Pack the checkout, the built arms and the missing wheels into one archive "
        "with a run script.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("out/bundle.tar.xz"), help="default: %(default)s")
    parser.add_argument("--arm", help="this arm and those before it (default: the whole series)")
    parser.add_argument("--series", type=Path, metavar="DIR", help="a series other than patches/")
    parser.add_argument("--flavour", choices=[f.value for f in Flavour], default=Flavour.LEAN.value)
    parser.add_argument("--suites", nargs="+", default=["oracle", "kernelbench"], metavar="SUITE")
    parser.add_argument("--python", default="3.12", help="the host's Python (default: %(default)s)")
    parser.add_argument(
        "--host-has",
        nargs="+",
        default=list(HOST_HAS),
        metavar="NAME",
        help=f"packages that the host has and that are not packed (default: {' '.join(HOST_HAS)})",
    )
    parser.add_argument(
        "--engine",
        action="store_true",
        help="bring along what an engine in one process needs: wheels, and the wheel's own extension",
    )
    parser.add_argument(
        "--architecture",
        type=int,
        metavar="N",
        help="keep only this GPU's machine code in the extension, such as 90",
    )
    parser.add_argument("--part-mib", type=int, metavar="N", help="split into parts of N MiB")
    parser.set_defaults(func=run)


def extensions(wanted: bool, architecture: int | None, cache: Path) -> dict[str, bytes]:
    """The wheel's extension that an engine needs, blanked to one architecture where it is named."""
    if not wanted:
        return {}
    with ConsoleProgress(Console(stderr=True)) as progress:
        files = read_files(PIN, [ENGINE_EXTENSION], cache, progress)
    if architecture is None:
        return files
    return {path: keep_architecture(data, architecture) for path, data in files.items()}


def check_target(out: Path) -> None:
    """Make the folder of the archive, before anything slow is done.

    Raises:
        UsageError: there is no place for the archive.
    """
    remedy = "name a file in a folder that can be written"
    if out.is_dir():
        raise UsageError(f"--out {out}: is a folder", remedy=remedy)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}", remedy=remedy) from error


def run(args: argparse.Namespace) -> ExitCode:
    """Build the arms, fetch the wheels, write the archive."""
    for suite in args.suites:
        check_suite(suite)
    if args.part_mib is not None and args.part_mib < 1:
        raise UsageError(f"--part-mib {args.part_mib}: a part has at least 1 MiB")
    check_target(args.out)
    cache, flavour = cache_root(), Flavour(args.flavour)
    with ConsoleProgress(Console(stderr=True)) as progress:
        arms = find_arms_up_to(args.arm, args.series, flavour=flavour, progress=progress)
    tree = cache / "trees" / arms[0].root.parent.name
    with tempfile.TemporaryDirectory(prefix="forkproof-wheels-") as folder:
        wheels = []
        for lock in ("stack", *(["engine"] if args.engine else [])):
            wheels = download_wheels(ROOT / "locks" / f"{lock}.txt", Path(folder), args.python, args.host_has)
        contents = Contents(
            checkout=committed_tree(),
            cache=cache,
            cached=[tree, *(arm.root for arm in arms)],
            wheels=wheels,
            suites=args.suites,
            flavour=flavour.value,
            arm=arms[-1].name,
            extensions=extensions(args.engine, args.architecture, cache),
            series=args.series,
        )
        written = write_parts(pack(contents), args.out, args.part_mib and args.part_mib * MIB)
    for line in uncommitted():
        print(f"note: not in the bundle, because not committed: {line}")
    for path in written:
        print(f"{path}  {path.stat().st_size / MIB:.1f} MiB")
    review.say(last_line(Verdict.PASS, closing(written, len(arms), len(wheels)), ExitCode.PASS) + "\n")
    return ExitCode.PASS


def closing(written: Sequence[Path], arms: int, wheels: int) -> str:
    """What was packed, and how to unpack the files that were written."""
    name = written[0].name
    unpack = f"tar xJf {name}" if len(written) == 1 else f"cat {name.rstrip('0123456789')}* | tar xJ"
    return f"bundle of {arms} arms and {wheels} wheels; on the host: {unpack}, then forkproof-bundle/run.sh"
