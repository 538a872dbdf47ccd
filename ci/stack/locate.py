"""Where the pinned wheel is, by pip's own configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from ci.stack.errors import PipError, WheelMismatchError, WheelNotFoundError
from ci.stack.pin import Pin
from ci.stack.pipcall import Found, dry_run

WHEEL_PYTHON = "3.12"
"""A Python that the wheel accepts, whatever Python runs this: an arm's tree is the same for all of them."""


@dataclass(frozen=True)
class WheelSource:
    """The wheel's place."""

    url: str

    @property
    def local(self) -> Path | None:
        """The file, if pip found it in a folder of this machine."""
        parts = urlsplit(self.url)
        return Path(url2pathname(parts.path)) if parts.scheme == "file" else None


def locate_wheel(pin: Pin, cache: Path) -> WheelSource:
    """Ask pip for the pinned wheel.

    The platform tags are given, so that the answer does not depend on the machine
    or the Python that asks.

    Raises:
        WheelNotFoundError: pip does not find it; with pip's words and a way out.
        WheelMismatchError: pip finds another file of that version.
    """
    source = find_wheel(pin.vllm, [pin.platform], cache, pin.wheel)
    name = wheel_name(source)
    if name != pin.wheel or source.sha256 not in (None, pin.wheel_sha256):
        raise WheelMismatchError(
            f"pip finds {name} (sha256 {source.sha256}), pinned is {pin.wheel} (sha256 {pin.wheel_sha256})",
            cause="a mirror or folder that pip is configured with has another build of this version",
            remedy="pip config list shows where pip looks; take the other build out, or point pip elsewhere",
        )
    return WheelSource(source.url)


def find_wheel(version: str, platforms: Sequence[str], cache: Path, name: str = "the wheel") -> Found:
    """Ask pip for the wheel of one vLLM release.

    Args:
        version: the release.
        platforms: platform tags, any of which will do.
        cache: folder in which a recent pip may be put.
        name: what to call the wheel in the remedy.

    Raises:
        WheelNotFoundError: pip does not find it; with pip's words and a way out.
    """
    wanted = ["--no-deps", "--ignore-installed", "--only-binary", ":all:", "--target", str(cache / "unused")]
    try:
        found = dry_run([*wanted, *target_tags(platforms), "--abi", "abi3", f"vllm=={version}"], cache)
    except PipError as error:
        raise WheelNotFoundError(
            f"the wheel of vllm {version} cannot be found: {error.what}",
            cause=error.cause,
            remedy=error.remedy
            or f"point pip at an index that has it (PIP_INDEX_URL), "
            f"or put {name} in a folder and set PIP_FIND_LINKS to that folder",
        ) from error
    source = next((item for item in found if item.name.lower() == "vllm"), None)
    if source is None:
        raise WheelNotFoundError(f"pip reports no file for vllm {version}", remedy="pip config list")
    return source


def target_tags(platforms: Sequence[str]) -> list[str]:
    """Options that make pip's answer independent of the machine and the Python that asks."""
    names = (name for platform in platforms for name in platform.split("."))  # a file may carry several
    tags = [word for name in names for word in ("--platform", name)]
    return [*tags, "--python-version", WHEEL_PYTHON, "--implementation", "cp"]


def wheel_name(found: Found) -> str:
    """File name of a wheel that pip found."""
    return unquote(urlsplit(found.url).path).rpartition("/")[2]
