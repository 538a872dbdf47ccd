"""One archive for a GPU host without internet: the checkout, built arms, missing wheels, a run script.

The archive is reproducible: the same inputs give the same bytes, whoever packs them.
"""

from __future__ import annotations

import glob
import io
import lzma
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci.errors import GateError
from ci.lanes import extensions
from ci.lanes.run import ROOT, SITE_VARIABLE
from ci.results.files import write_atomic

FOLDER = "forkproof-bundle"
"""The folder that the archive unpacks to."""
NEWEST_GLIBC = 35
"""2.35, as on Ubuntu 22.04: pip matches a platform tag exactly, so every one up to it is named."""
WHEEL_PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(NEWEST_GLIBC, 16, -1)),
    "manylinux2014_x86_64",
)
MIB = 1024 * 1024

RUN_SCRIPT = """\
#!/usr/bin/env bash
# Runs suites on this host, without network. Usage: ./run.sh [SUITE...] [-- options of `python -m ci run`]
# Or another command: ./run.sh doctor [--lane LANE] [--json], ./run.sh sweep, or any behind the word ci:
# ./run.sh ci throughput any-gpu-verify --in-process
set -euo pipefail
here=$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)
python=${{PYTHON:-python3}}
export {site}="$here/site" PYTHONPATH="$here/site" FORKPROOF_CACHE="$here/cache"
export {extensions}="$here/extensions" FORKPROOF_FLAVOUR={flavour}
{series}if [ ! -d "$here/site" ]; then
    "$python" -m pip install -q --no-index --no-deps --no-compile --target "$here/site" "$here"/wheels/*.whl
    cp "$here/checkout/ci/lanes/extensions.py" "$here/site/sitecustomize.py"
fi
cd "$here/checkout"
case ${{1:-}} in
    ci) exec "$python" -m "$@" ;;
    doctor|sweep) exec "$python" -m ci "$@" ;;
esac
if [ $# -eq 0 ]; then set -- {suites}; fi
# An installed tree that VLLM_ROOT names is judged instead of an arm, and the two exclude each other.
[ -n "${{VLLM_ROOT:-}}" ] || set -- --arm {arm} "$@"
exec "$python" -m ci run "$@"
"""


class BundleError(GateError):
    """The archive cannot be made."""


@dataclass(frozen=True)
class Contents:
    """What goes into a bundle."""

    checkout: bytes
    """The committed tree, as a tar archive."""
    cache: Path
    cached: Sequence[Path]
    """Folders below the cache: the stock tree and the arms."""
    wheels: Sequence[Path]
    suites: Sequence[str]
    flavour: str
    arm: str
    """What suites on the host take by default: the last arm that was packed."""
    extensions: Mapping[str, bytes] = field(default_factory=dict)
    """Compiled extensions for a lean arm, by their path in the wheel."""
    series: Path | None = None
    """A series other than the checkout's own; its files are packed as well."""


def committed_tree(root: Path = ROOT) -> bytes:
    """The tree of HEAD as a tar archive: the host runs what is committed, not what happens to lie around."""
    done = subprocess.run(
        ["git", "-C", str(root), "archive", "--format=tar", "HEAD"], capture_output=True, check=False
    )
    if done.returncode:
        raise BundleError(
            f"{root} has no commit to pack: {done.stderr.decode(errors='replace').strip()}",
            remedy="bundle from a clone, so that the host runs what is committed",
        )
    return done.stdout


def uncommitted(root: Path = ROOT) -> list[str]:
    """Changed files that a bundle leaves behind, as `git status` spells them."""
    status = ["git", "-C", str(root), "status", "--porcelain"]
    return subprocess.run(status, capture_output=True, text=True, check=False).stdout.splitlines()


def download_wheels(lock: Path, folder: Path, python: str, host_has: Iterable[str]) -> list[Path]:
    """Wheels of the lock for the host's Python, less what the host has.

    Args:
        lock: pinned requirements with hashes.
        folder: where the wheels go.
        python: the host's Python, such as "3.12".
        host_has: names that are not packed.
    """
    left_out = {name.lower() for name in host_has}
    wanted = folder / "requirements.txt"
    text = without(lock.read_text(encoding="utf-8"), left_out)
    write_atomic(wanted, text.encode())
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"),
        *("--implementation", "cp", "--python-version", python, "--require-hashes"),
        *(word for platform in WHEEL_PLATFORMS for word in ("--platform", platform)),
        *("--dest", str(folder), "--requirement", str(wanted)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BundleError(
            f"pip could not download the wheels for Python {python}: {done.stderr.strip()[-600:]}",
            remedy="name packages that the host has with --host-has, or another --python",
        )
    return sorted(folder.glob("*.whl"))


def without(requirements: str, names: set[str]) -> str:
    """A lock file without some packages: an entry is a line `name==...` and its indented lines."""
    kept, keep = [], True
    for line in requirements.splitlines(keepends=True):
        if line and not line[0].isspace() and not line.startswith("#"):
            keep = line.partition("==")[0].strip().lower() not in names
        if keep:
            kept.append(line)
    return "".join(kept)


def pack(contents: Contents) -> bytes:
    """The archive: tar with hard links kept, so that files which arms share are stored once, under xz."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        _add_tree(archive, contents.checkout, Path("checkout"))
        for folder in contents.cached:
            for file in sorted(path for path in folder.rglob("*") if path.is_file()):
                _add(archive, file, Path("cache", file.relative_to(contents.cache)))
        for wheel in contents.wheels:
            _add(archive, wheel, Path("wheels", wheel.name))
        for name, data in contents.extensions.items():
            _add_data(archive, f"extensions/{name}", data, 0o755)
        if contents.series:
            for file in sorted(path for path in contents.series.iterdir() if path.is_file()):
                _add(archive, file, Path("series", file.name))
        script = RUN_SCRIPT.format(
            site=SITE_VARIABLE,
            extensions=extensions.VARIABLE,
            suites=shlex.join(contents.suites),
            flavour=contents.flavour,
            arm=shlex.quote(contents.arm),
            series='export FORKPROOF_SERIES="$here/series"\n' if contents.series else "",
        ).encode()
        _add_data(archive, "run.sh", script, 0o755)
    return lzma.compress(buffer.getvalue(), preset=6)


def _add_tree(archive: tarfile.TarFile, tree: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(tree)) as source:
        for info in source:
            data = source.extractfile(info) if info.isreg() else None
            info.name = str(Path(FOLDER) / folder / info.name)
            _anonymous(info)
            archive.addfile(info, data)


def _add(archive: tarfile.TarFile, file: Path, name: Path) -> None:
    info = archive.gettarinfo(str(file), arcname=str(FOLDER / name))
    _anonymous(info)
    if info.isreg():
        with file.open("rb") as data:
            archive.addfile(info, data)
    else:
        archive.addfile(info)


def _add_data(archive: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    info = tarfile.TarInfo(f"{FOLDER}/{name}")
    info.size, info.mode = len(data), mode
    archive.addfile(info, io.BytesIO(data))


def _anonymous(info: tarfile.TarInfo) -> None:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = 0
    info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    info.pax_headers = {}


def write_parts(data: bytes, target: Path, part_bytes: int | None) -> list[Path]:
    """Write the archive whole, or in numbered parts that `cat` joins again.

    What an earlier archive of the name left behind goes: `cat` over its parts would join them as well.
    """
    starts = range(0, len(data), part_bytes or max(len(data), 1))
    digits = max(2, len(str(len(starts))))
    written = {target: data}
    if len(starts) > 1:
        written = {
            target.with_name(f"{target.name}.part{number:0{digits}d}"): data[start : start + starts.step]
            for number, start in enumerate(starts, start=1)
        }
    parts = target.parent.glob(f"{glob.escape(target.name)}.part*")
    for old in (target, *(part for part in parts if part.suffix.removeprefix(".part").isdecimal())):
        if old not in written:
            old.unlink(missing_ok=True)
    for path, content in written.items():
        write_atomic(path, content)
    return list(written)
