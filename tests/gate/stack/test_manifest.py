from __future__ import annotations

from pathlib import Path

from ci.stack.manifest import ArmManifest, FilePair, Offset, PatchEntry, read_manifest, write_manifest

MANIFEST = ArmManifest(
    schema=1,
    arm="mq3d",
    vllm="0.27.1",
    wheel_sha256="a" * 64,
    flavour="lean",
    series_hash="b" * 64,
    patches=[PatchEntry("x.patch", "c" * 64, "d" * 64)],
    files={"vllm/m.py": FilePair("e" * 64, None)},
    offsets=[Offset("x.patch", "vllm/m.py", 1, 5, 45)],
)


def test_a_manifest_survives_its_file(tmp_path: Path) -> None:
    """What is written is what is read, as indented JSON with a newline at its end."""
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path) == MANIFEST
    text = (tmp_path / "arm.json").read_text()
    assert text.startswith('{\n "schema": 1,\n "arm": "mq3d",')
    assert text.endswith("}\n")
