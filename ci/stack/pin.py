"""The pinned wheel, read from ``pin.toml`` beside this module."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

PIN_FILE = Path(__file__).with_name("pin.toml")


@dataclass(frozen=True)
class Pin:
    """One vLLM release: which wheel, how it is known to be the right one, and what it needs."""

    vllm: str
    """Version, as pip prints it."""
    wheel: str
    """File name of the wheel; its tags say which platform it is for."""
    wheel_sha256: str
    record_sha256: str
    """Hash of the wheel's RECORD, which in turn lists the hash of every other file."""
    torch: str
    triton: str

    @property
    def dist_info(self) -> str:
        """Name of the metadata folder inside the wheel."""
        return f"vllm-{self.vllm}.dist-info"

    @property
    def platform(self) -> str:
        """Platform tag of the wheel, such as ``manylinux_2_28_x86_64``."""
        return self.wheel.removesuffix(".whl").rsplit("-", 1)[1]

    @property
    def key(self) -> str:
        """Short name of the wheel in the cache."""
        return f"{self.vllm}-{self.wheel_sha256[:12]}"


def parse_pin(text: str) -> Pin:
    """Read a pin from the text of ``pin.toml``."""
    data = tomllib.loads(text)
    vllm, requires = data["vllm"], data["requires"]
    return Pin(
        vllm=vllm["version"],
        wheel=vllm["wheel"],
        wheel_sha256=vllm["wheel_sha256"],
        record_sha256=vllm["record_sha256"],
        torch=requires["torch"],
        triton=requires["triton"],
    )


PIN = parse_pin(PIN_FILE.read_text(encoding="utf-8"))
