"""How much an environment would download, before it is made.

``python -m ci.stack.downloads -r REQUIREMENTS [--and -r MORE]`` prints one line,
and a way to download less when it is much.  Each group between ``--and`` is what
one call of ``pip install`` would get.  Standard library only: it runs before
anything is installed.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ci.errors import GateError
from ci.stack.cache import cache_root
from ci.stack.net import content_length
from ci.stack.pipcall import Found, dry_run

MB = 1_000_000
LARGE_BYTES = 500 * MB
"""Above this, say how to download less."""
PARALLEL = 8
REMEDY = (
    "for less, point pip at a CPU build of torch: set PIP_EXTRA_INDEX_URL to an index of CPU builds, "
    "or PIP_FIND_LINKS to a folder with such a wheel"
)

_HASH = re.compile(r"[ \t]*(\\\r?\n)?[ \t]*--hash[= ]\S+")


@dataclass(frozen=True)
class Download:
    """One file that pip would take."""

    name: str
    version: str
    bytes: int | None
    """None if the server does not say."""
    local: bool
    """True if it lies on this machine already."""


def planned_downloads(
    arguments: Sequence[str], cache: Path | None = None, python: str = sys.executable
) -> list[Download]:
    """What ``pip install ARGUMENTS`` would take, largest first; nothing is downloaded.

    Hashes in requirement files are left aside for this: pip reads a file's metadata
    without downloading it only where no hash is asked for.  What pip has in its own
    cache is counted as well, since pip does not say.

    Raises:
        PipError: pip cannot answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = dry_run(_without_hashes(arguments, Path(folder)), cache_root(cache), python)
    with ThreadPoolExecutor(PARALLEL) as pool:
        downloads = list(pool.map(_measure, found))
    return sorted(downloads, key=lambda item: (-(item.bytes or 0), item.name))


def size_note(downloads: Iterable[Download], large: int = LARGE_BYTES) -> str:
    """One line with the sum and the largest file; and the remedy when the sum is above ``large`` bytes."""
    remote = [item for item in downloads if not item.local]
    total = sum(item.bytes or 0 for item in remote)
    unknown = sum(item.bytes is None for item in remote)
    text = f"to download: {len(remote)} packages, {total / MB:,.0f} MB"
    if unknown:
        text += f" and {unknown} of unknown size"
    largest = sorted((item for item in remote if item.bytes), key=lambda item: -(item.bytes or 0))[:3]
    if largest:
        text += " (" + ", ".join(f"{item.name} {(item.bytes or 0) / MB:,.0f} MB" for item in largest) + ")"
    return f"{text}\n{REMEDY}" if total > large else text


def strip_hashes(text: str) -> str:
    """A requirement file without its ``--hash`` options."""
    return _HASH.sub("", text)


def _without_hashes(arguments: Sequence[str], folder: Path) -> list[str]:
    """The same arguments, with each requirement file replaced by a copy without hashes."""
    result: list[str] = []
    for number, argument in enumerate(arguments):
        if result and result[-1] in {"-r", "--requirement"}:
            copy = folder / f"{number}-{Path(argument).name}"
            copy.write_text(strip_hashes(Path(argument).read_text(encoding="utf-8")), encoding="utf-8")
            argument = str(copy)
        result.append(argument)
    return result


def _measure(found: Found) -> Download:
    parts = urlsplit(found.url)
    if parts.scheme == "file":
        file = Path(url2pathname(parts.path))
        size = file.stat().st_size if file.is_file() else None
        return Download(found.name, found.version, size, local=True)
    return Download(found.name, found.version, content_length(found.url), local=False)


def main(argv: Sequence[str]) -> int:
    """Print the note for the groups of pip arguments in ``argv``; never stands in the way of the build."""
    groups: list[list[str]] = [[]]
    for argument in argv:
        if argument == "--and":
            groups.append([])
        else:
            groups[-1].append(argument)
    try:
        items = [item for group in groups if group for item in planned_downloads(group)]
        print(size_note({item.name.lower(): item for item in items}.values()), flush=True)
    except (GateError, OSError) as error:
        print(f"sizes to download: unknown ({str(error).splitlines()[0]})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
