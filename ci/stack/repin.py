"""What moving the pin to another release means: read from that release, nothing written.

The wheel is not downloaded: RECORD, METADATA and the patched files are read by
ranges, and each file is checked against RECORD.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ci.errors import UsageError
from ci.results.drift import DRIFT_SCHEMA, ReleaseFate
from ci.stack.drift import judge_series
from ci.stack.errors import WheelMismatchError
from ci.stack.locate import WHEEL_PYTHON, WheelSource, target_tags
from ci.stack.pin import Pin, parse_pin
from ci.stack.pipcall import dry_run, list_versions
from ci.stack.progress import Progress
from ci.stack.radar import Locate
from ci.stack.ranges import Counted, RemoteFile, SparseFile
from ci.stack.record import sha256_of
from ci.stack.releases import OTHER_PLATFORMS, check_version, locate_release, open_release
from ci.stack.series import Series
from ci.stack.wheel import inflate, open_wheel

MACHINE = {
    "extra": "",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_system": "Linux",
    "python_version": WHEEL_PYTHON,
    "sys_platform": "linux",
}
"""Where the pinned wheel is for; markers are read for it, wherever this runs."""
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)

TritonFor = Callable[[str, Pin, Path], str]
"""The triton that a torch release takes, given torch's version, the new pin and the cache."""


@dataclass(frozen=True)
class Unmet:
    """A locked version that the new wheel does not accept."""

    package: str
    locked: str
    wanted: str
    """As a specifier, such as ``==2.14.0``."""


@dataclass(frozen=True)
class Move:
    """The pin before and after, and what the release makes of the series and the locks."""

    before: Pin
    after: Pin
    fate: ReleaseFate
    unmet: tuple[Unmet, ...]
    counted: Counted


def read_move(
    version: str,
    series: Series,
    before: Pin,
    cache: Path,
    progress: Progress,
    locked: Mapping[str, str],
    locate: Locate = locate_release,
    triton_for: TritonFor | None = None,
) -> Move:
    """Read from a release all that the new pin needs, and judge the series on it.

    Args:
        version: the release, as pip prints it.
        series: the patches.
        before: the present pin.
        cache: the gate's cache folder.
        progress: told what is being done.
        locked: versions of the lock files by package.
        locate: finds a release.
        triton_for: finds the triton of a torch release; asked only if torch moves as well.

    Raises:
        UsageError: the pin is there already, or pip knows the release by another name.
        StackError: the release cannot be fetched or trusted.
    """
    if check_version(version) == before.vllm:
        raise UsageError(f"the pin is vllm {version} already", remedy=f"nox -s drift -- --release {version}")
    progress.say(f"asking pip where vllm {version} is")
    found, source = locate(version, before, cache)
    release = dataclasses.replace(found, wheel_sha256=wheel_hash(found, source))
    _check_name(release, version)
    with open_release(release, source, cache) as (tree, counted):
        progress.say("reading its list of files, its requirements and the patched files")
        metadata = tree.read(f"{release.dist_info}/METADATA")
        if metadata is None:
            raise WheelMismatchError(f"{release.wheel}: no METADATA", remedy="pip config list")
        wanted = requirements(metadata.decode("utf-8", "replace"))
        torch = exact(wanted, "torch", release.wheel)
        triton = before.triton
        if torch != before.torch:
            progress.say(f"asking pip for torch {torch}, which says what triton it takes")
            triton = (triton_for or find_triton)(torch, release, cache)
        after = dataclasses.replace(release, record_sha256=tree.record_sha256, torch=torch, triton=triton)
        fates = judge_series(series.patches, tree)
    fate = ReleaseFate(DRIFT_SCHEMA, version, after.wheel, after.wheel_sha256, after.record_sha256, fates)
    wanted["triton"] = SpecifierSet(f"=={triton}")
    return Move(before, after, fate, find_unmet(wanted, locked), counted)


def wheel_hash(release: Pin, source: WheelSource) -> str:
    """sha256 of the whole wheel: of the file itself where it lies here, else what the index says.

    Raises:
        WheelMismatchError: the index says nothing, or something else than the file.
    """
    stated = release.wheel_sha256
    if source.local is None:
        if not re.fullmatch(r"[0-9a-f]{64}", stated):
            raise WheelMismatchError(
                f"the index does not say the sha256 of {release.wheel}",
                remedy="put a wheel that you trust in a folder, and set PIP_FIND_LINKS to that folder",
            )
        return stated
    found = sha256_of(source.local)
    if stated not in ("", found):
        raise WheelMismatchError(f"{source.local}: sha256 {found}, pip was told {stated}")
    return found


def _check_name(release: Pin, version: str) -> None:
    named = release.wheel.split("-")[1] if release.wheel.count("-") >= 4 else ""
    if named != version:
        raise UsageError(
            f"pip's answer to vllm {version} is {release.wheel}", remedy=f"name it so: {named or 'VERSION'}"
        )


def requirements(metadata: str) -> dict[str, SpecifierSet]:
    """What a distribution needs on the wheel's platform, extras left aside; lines pip cannot read, too."""
    wanted: dict[str, SpecifierSet] = {}
    for line in Parser().parsestr(metadata, headersonly=True).get_all("Requires-Dist") or []:
        try:
            one = Requirement(line)
        except InvalidRequirement:
            continue
        if one.marker is None or one.marker.evaluate(MACHINE):
            name = normal(one.name)
            wanted[name] = wanted.get(name, SpecifierSet()) & one.specifier
    return wanted


def exact(wanted: Mapping[str, SpecifierSet], package: str, source: str) -> str:
    """The one version of ``package`` that is accepted, without its local part.

    Raises:
        WheelMismatchError: none, or more than one.
    """
    versions = [one.version for one in wanted.get(package, SpecifierSet()) if one.operator == "=="]
    if len(versions) != 1 or "*" in versions[0]:
        raise WheelMismatchError(
            f"{source} does not name one version of {package}",
            cause=f"its requirement is {str(wanted.get(package, '')) or 'absent'}",
            remedy="edit ci/stack/pin.toml by hand",
        )
    return Version(versions[0]).public


def find_triton(torch: str, release: Pin, cache: Path) -> str:
    """The newest triton that this torch takes.

    Raises:
        StackError: torch cannot be read, or there is no such triton.
    """
    tags = target_tags([release.platform, *OTHER_PLATFORMS])
    takes = requirements(read_torch_metadata(torch, tags, cache)).get("triton")
    if takes is None:
        raise WheelMismatchError(
            f"torch {torch} takes no triton",
            cause="pip finds a build without CUDA before the default one",
            remedy="unset PIP_EXTRA_INDEX_URL and PIP_FIND_LINKS for this step",
        )
    versions = [one for one in list_versions("triton", tags, cache) if takes.contains(one)]
    if not versions:
        raise WheelMismatchError(
            f"no triton {takes}, which torch {torch} takes, can be had", remedy="pip config list"
        )
    return max(versions, key=Version)


def read_torch_metadata(version: str, tags: Sequence[str], cache: Path) -> str:
    """METADATA of torch's wheel, read by ranges.

    Raises:
        StackError: it cannot be found or read.
    """
    options = ["--no-deps", "--ignore-installed", "--only-binary", ":all:", "--target", str(cache / "unused")]
    (found,) = dry_run([*options, *tags, f"torch=={version}"], cache)
    source = WheelSource(found.url)
    stream = source.local.open("rb") if source.local else SparseFile(RemoteFile(source.url))
    with stream, open_wheel(stream, f"torch {version}") as archive:
        info = next((one for one in archive.infolist() if one.filename.endswith(".dist-info/METADATA")), None)
        if info is None:
            raise WheelMismatchError(f"torch {version}: its wheel has no METADATA", remedy="pip config list")
        return inflate(archive, info).decode("utf-8", "replace")


def locked_versions(*texts: str) -> dict[str, str]:
    """Versions by package in the texts of lock files."""
    return {normal(name): version for text in texts for name, version in _LOCKED.findall(text)}


def find_unmet(wanted: Mapping[str, SpecifierSet], locked: Mapping[str, str]) -> tuple[Unmet, ...]:
    """Locked versions that are not accepted; what is not locked is another matter."""
    return tuple(
        Unmet(name, locked[name], str(specifier))
        for name, specifier in sorted(wanted.items())
        if name in locked and not specifier.contains(locked[name], prereleases=True)
    )


def normal(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pin_text(text: str, after: Pin) -> str:
    """``pin.toml`` with the values of another pin, its comments kept.

    Raises:
        UsageError: the file has not the shape that can be edited.
    """
    values = {
        "version": after.vllm,
        "wheel": after.wheel,
        "wheel_sha256": after.wheel_sha256,
        "record_sha256": after.record_sha256,
        "torch": after.torch,
        "triton": after.triton,
    }
    for key, value in values.items():
        text = re.sub(rf'(?m)^{key} = "[^"\n]*"', f'{key} = "{value}"', text)
    if parse_pin(text) != after:
        raise UsageError("ci/stack/pin.toml has another shape than expected", remedy="edit it by hand")
    return text
