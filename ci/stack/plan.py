"""Which arms a series has: named prefixes of it.

``stock`` is no patch, always.  The other names come from ``arms.toml`` in the
series folder::

    [arms]
    mq3d = "spec-decode-int4-kv-mq3d.patch"     # the last patch of the prefix

``patched`` is the whole series, unless the file names a shorter prefix for it.
Without that file, every shorter prefix is called by its last patch, without the
suffix.  Whatever it is called, suites take the last arm by default.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ci.results.files import read_limited
from ci.stack.errors import ArmsFileError, UnknownArmError
from ci.stack.patchmodel import Patch, series_hash
from ci.stack.series import SUFFIXES, Series

ARMS_FILE = "arms.toml"
STOCK = "stock"
PATCHED = "patched"
MAX_BYTES = 64 * 1024

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
"""A name is a folder name, and stands in tables and file names."""


@dataclass(frozen=True)
class ArmPlan:
    """One arm before it is built."""

    name: str
    patches: tuple[Patch, ...]

    @property
    def series_hash(self) -> str:
        """Hash of what the arm's patches do."""
        return series_hash(self.patches)


def plan_arms(series: Series) -> tuple[ArmPlan, ...]:
    """The arms of ``series``, from none of its patches to all of them.

    Raises:
        ArmsFileError: ``arms.toml`` names what is not there, or is not readable.
    """
    file = series.folder / ARMS_FILE
    named = parse_arms(read_limited(file, MAX_BYTES), str(file)) if file.exists() else _stems(series.patches)
    lengths = {STOCK: 0, PATCHED: len(series.patches), **_lengths(named, series.patches, str(file))}
    if len(series.patches) not in lengths.values():
        raise ArmsFileError(
            f"{file}: no arm holds the whole series",
            remedy=f'name one: NAME = "{series.patches[-1].name}"',
        )
    ordered = sorted(lengths.items(), key=lambda item: item[1])
    return tuple(ArmPlan(name, series.patches[:length]) for name, length in ordered)


def choose_plan(plans: Sequence[ArmPlan], name: str | None) -> ArmPlan:
    """The plan called ``name``; without a name that of the whole series.

    Raises:
        UnknownArmError: with the names there are.
    """
    return plans[-1] if name is None else choose_plans(plans, [name])[0]


def parse_arms(data: bytes, path: str) -> dict[str, str]:
    """Read ``arms.toml``: arm name -> name of the last patch of its prefix."""
    try:
        table = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ArmsFileError(f"{path}: {error}") from error
    arms = table.get("arms")
    if set(table) != {"arms"} or not isinstance(arms, dict):
        raise ArmsFileError(f"{path}: has to hold one table, [arms]", remedy='[arms]\nNAME = "LAST.patch"')
    for name, last in arms.items():
        if name == STOCK:
            raise ArmsFileError(f"{path}: {name} is built in", remedy=f"take the line out: {name} = ...")
        if not _NAME.fullmatch(name) or not isinstance(last, str):
            raise ArmsFileError(f"{path}: {name!r} = {last!r}", remedy='write NAME = "LAST.patch"')
    return arms


def choose_plans(plans: Sequence[ArmPlan], names: Sequence[str] | None) -> tuple[ArmPlan, ...]:
    """The plans called ``names``, in order of the series; all of them for None.

    The last patch's name without suffix is another name for the whole series.

    Raises:
        UnknownArmError: with the names there are.
    """
    if names is None:
        return tuple(plans)
    known = {plan.name for plan in plans}
    whole = plans[-1].patches
    aliases = {_stem(whole[-1].name): plans[-1].name} if whole else {}
    wanted = {name if name in known else aliases.get(name, name) for name in names}
    if unknown := sorted(wanted - known):
        raise UnknownArmError(
            f"no arm called {', '.join(unknown)}",
            remedy=f"name one of: {', '.join(plan.name for plan in plans)}",
        )
    return tuple(plan for plan in plans if plan.name in wanted)


def _stems(patches: Sequence[Patch]) -> dict[str, str]:
    return {_stem(patch.name): patch.name for patch in patches[:-1]}


def _stem(name: str) -> str:
    suffix = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")
    stem = re.sub(r"[^A-Za-z0-9._+-]+", "-", name.removesuffix(suffix)).strip("-._+")[:100]
    return f"patch-{stem}" if stem in {STOCK, PATCHED, ""} else stem


def _lengths(named: Mapping[str, str], patches: Sequence[Patch], path: str) -> dict[str, int]:
    index = {patch.name: number for number, patch in enumerate(patches, start=1)}
    if missing := sorted(f"{name} = {last!r}" for name, last in named.items() if last not in index):
        raise ArmsFileError(
            f"{path}: not in the series: {', '.join(missing)}",
            remedy="name the last patch of each arm as the series does",
        )
    return {name: index[last] for name, last in named.items()}
