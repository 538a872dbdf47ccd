"""Hash an arm again, and name every file that is not as its manifest and RECORD say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.errors import GateError
from ci.stack.arms import arm_folder, expected_files
from ci.stack.errors import ArmNotBuiltError, RecordError
from ci.stack.manifest import MANIFEST, ArmManifest, read_manifest
from ci.stack.pin import PIN, Pin
from ci.stack.plan import ArmPlan
from ci.stack.record import Difference, DifferenceKind, Flavour, Record, compare_folder, parse_record


@dataclass(frozen=True)
class Verification:
    """What one arm turned out to be."""

    name: str
    root: Path
    files: int
    """Number of files that the arm must have."""
    differences: tuple[Difference, ...]


def verify_arm(plan: ArmPlan, cache: Path, flavour: Flavour = Flavour.LEAN, pin: Pin = PIN) -> Verification:
    """Hash every file of the arm that ``plan`` describes.

    Unpatched files are held against the wheel's RECORD, whose own hash is pinned;
    patched ones against the manifest, whose patches must be those of the series.

    Raises:
        ArmNotBuiltError: the arm is not in the cache.
    """
    root = arm_folder(plan, pin, flavour, cache)
    if not root.is_dir():
        raise ArmNotBuiltError(
            f"arm {plan.name} ({flavour.value}) is not built: {root}", remedy="python -m ci stack build"
        )
    manifest, record = _manifest_of(root, plan, pin), _record_of(root, pin)
    broken = [
        name for name, found in ((MANIFEST, manifest), (f"{pin.dist_info}/RECORD", record)) if found is None
    ]
    if manifest is None or record is None:
        differences = [Difference(name, DifferenceKind.CHANGED) for name in broken]
        return Verification(plan.name, root, 0, tuple(differences))
    listed = {path: entry.sha256 for path, entry in record.of(flavour).items()}
    expected = expected_files(listed, manifest)
    found = compare_folder(root, expected, ignore=[MANIFEST])
    return Verification(plan.name, root, len(expected), tuple(found))


def _manifest_of(root: Path, plan: ArmPlan, pin: Pin) -> ArmManifest | None:
    """The manifest, if it is readable and about this arm."""
    try:
        manifest = read_manifest(root)
    except GateError:
        return None
    hashes: Sequence[str] = [patch.hunk_hash for patch in plan.patches]
    same = [
        entry.hunk_hash for entry in manifest.patches
    ] == hashes and manifest.series_hash == plan.series_hash
    return manifest if same and manifest.wheel_sha256 == pin.wheel_sha256 else None


def _record_of(root: Path, pin: Pin) -> Record | None:
    try:
        return parse_record((root / pin.dist_info / "RECORD").read_bytes(), pin)
    except (OSError, RecordError):
        return None
