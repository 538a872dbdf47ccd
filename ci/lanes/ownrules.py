"""Matrix and baselines of a commit of this repository, as data: what its runs are held against.

A branch here may change what it is compared with: that is how a baseline is accepted, and
a reviewer reads it.  A fork may not; its runs are held against the default branch.
"""

from __future__ import annotations

import tarfile
import zlib
from pathlib import Path, PurePosixPath

from ci.errors import GateError
from ci.lanes.matrix import MATRIX_FILE
from ci.results.files import write_atomic
from ci.results.jsonl import is_slug

MIB = 1 << 20
MAX_FILE_BYTES = 64 * MIB
MAX_TOTAL_BYTES = 512 * MIB
MATRIX = "ci/lanes/matrix.toml"
BASELINES = "baselines"


class OwnRulesError(GateError):
    """The commit's tree has no matrix and baselines that could be used."""


def unpack_rules(archive: Path, into: Path) -> tuple[Path, Path]:
    """Take the two out of a repository's tar archive, whose one top folder is of no interest.

    Returns:
        The matrix file and the folder of the baselines.

    Raises:
        OwnRulesError: the archive is not readable, too large, or lacks one of them.
    """
    matrix, baselines = into / MATRIX_FILE.name, into / BASELINES
    total = 0
    try:
        with tarfile.open(archive, "r:gz") as opened:
            for info in opened:
                path = "/".join(PurePosixPath(info.name).parts[1:])
                if not info.isreg() or not _wanted(path):
                    continue
                total += info.size
                if info.size > MAX_FILE_BYTES or total > MAX_TOTAL_BYTES:
                    raise OwnRulesError(f"{path}: too large to be compared with")
                stream = opened.extractfile(info)
                assert stream is not None  # noqa: S101 - a regular file has content
                write_atomic(matrix if path == MATRIX else into / path, stream.read())
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise OwnRulesError(f"the commit's files are no readable archive: {error}") from error
    if not matrix.is_file() or not (baselines / "plan.toml").is_file():
        raise OwnRulesError(
            f"the commit has no {MATRIX} or no {BASELINES}/plan.toml",
            remedy="rebase the branch: without them there is nothing to hold its results against",
        )
    return matrix, baselines


def _wanted(path: str) -> bool:
    folder, _, rest = path.partition("/")
    parts = rest.split("/")
    return path == MATRIX or (folder == BASELINES and len(parts) <= 2 and all(map(is_slug, parts)))
