"""A headless Chromium that loads a page and measures it; nothing of the page is trusted or changed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import unescape
from pathlib import Path

NAMES = (
    "chromium",
    "chromium-browser",
    "chromium-headless-shell",
    "google-chrome",
    "google-chrome-stable",
)
QUIET = (
    "--headless",
    "--no-sandbox",  # containers run as root, and the page is our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--allow-file-access-from-files",
    "--enable-logging=stderr",
    "--hide-scrollbars",
)
TIMEOUT_S = 90
SCRIPT = Path(__file__).with_name("measure.js")


@dataclass(frozen=True)
class Measured:
    """What the browser says about a page of some width."""

    dark: bool
    width: int
    scroll_width: int
    too_wide: tuple[str, ...]
    """Elements that stick out of the page."""
    low_contrast: tuple[str, ...]
    """Texts whose contrast with their background is below 4.5."""
    texts: int
    """How many texts were looked at."""
    console: tuple[str, ...]


def find_browser() -> str:
    """Return the browser's path; its absence is a failure of the session and no reason to skip."""
    named = os.environ.get("FORKPROOF_CHROMIUM")
    found = named or next((path for path in map(shutil.which, NAMES) if path), None)
    assert found, "no Chromium on PATH: apt-get install chromium-headless-shell, or set FORKPROOF_CHROMIUM"
    return found


def measure(pages: Mapping[str, Path], work: Path, widths: Iterable[int], dark: bool) -> dict[str, Measured]:
    """Load every page in a frame of every width, all in one browser; keys are ``name-width``."""
    frames = "".join(
        f'<iframe id="{name}-{width}" src="{page.as_uri()}" style="border:0;width:{width}px;height:900px">'
        "</iframe>"
        for name, page in pages.items()
        for width in widths
    )
    harness = work / f"harness-{dark}.html"
    script = SCRIPT.read_text(encoding="utf-8")
    harness.write_text(
        f'<!doctype html>{frames}<pre id="result"></pre><script>{script}</script>', encoding="utf-8"
    )
    scheme = ("--blink-settings=preferredColorScheme=0",) if dark else ()
    done = subprocess.run(
        [
            find_browser(),
            *QUIET,
            *scheme,
            f"--user-data-dir={work / 'profile'}",
            "--window-size=1400,1000",
            "--virtual-time-budget=10000",
            "--dump-dom",
            harness.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    match = re.search(r'<pre id="result">(\{.*?\})</pre>', done.stdout, re.DOTALL)
    assert match, f"the browser gave no measurement:\n{done.stderr[-2000:]}"
    console = tuple(line for line in done.stderr.splitlines() if "CONSOLE" in line)
    return {
        key: Measured(
            dark=one["dark"],
            width=one["width"],
            scroll_width=one["scrollWidth"],
            too_wide=tuple(one["tooWide"]),
            low_contrast=tuple(one["lowContrast"]),
            texts=one["texts"],
            console=console,
        )
        for key, one in json.loads(unescape(match.group(1))).items()
    }
