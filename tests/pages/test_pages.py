"""The HTML report in a real browser: no error, nothing sticks out, everything can be read."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ci.commands.diff import diff
from ci.gate.rows import GateVerdict
from ci.proof.checkout import Checkout, boots
from ci.report.charts import Point
from ci.report.page import render_page
from ci.results.records import Record
from tests.gate.report.pages import rich
from tests.gate.report.states import STATES
from tests.pages.browser import Measured, measure

HISTORY = {("cpu", "property", "boot", "step_ms"): [Point("2026-08-01", 9.0), Point("2026-09-01", 10.0)]}
PAGES = {**STATES, "rich": rich}
WIDTHS = (360, 1280)
"""Pixels: a small phone and a desktop."""


def compared(tmp_path: Path) -> GateVerdict:
    """A real comparison with an A/B metric."""
    checkout = Checkout(tmp_path / "checkout").write()
    checkout.measure(Record("speed", "step_ms", 10.0, "ms", sessions=(boots(0.004, "s1", noise=0.003),)))
    return diff(checkout.runs, checkout.baselines)


@pytest.fixture(scope="module", params=[False, True], ids=["light", "dark"])
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Measured]:
    """Return what the browser says about every page, in light or in dark mode."""
    work = tmp_path_factory.mktemp("pages")
    pages = {}
    for name, verdict in {**{key: make() for key, make in PAGES.items()}, "real": compared(work)}.items():
        pages[name] = work / f"{name}.html"
        pages[name].write_text(render_page(verdict, history=HISTORY), encoding="utf-8")
    found = measure(pages, work, WIDTHS, dark=request.param)
    assert len(found) == len(pages) * len(WIDTHS)
    assert {one.dark for one in found.values()} == {request.param}
    return found


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [*PAGES, "real"])
def test_page(name: str, width: int, measured: dict[str, Measured]) -> None:
    """Every state of the report fits its screen, reads well, and says nothing on the console."""
    seen = measured[f"{name}-{width}"]
    assert seen.width == width
    assert seen.console == ()
    assert seen.scroll_width <= seen.width, seen.too_wide[:5]
    assert seen.too_wide == ()
    assert seen.low_contrast == ()
    assert seen.texts > 3


@pytest.mark.parametrize(
    ("damage", "field"),
    [
        ('<p style="width:2000px">wide</p>', "too_wide"),
        ('<p style="color:#888;background:#777">pale</p>', "low_contrast"),
        ("<script>console.log(1)</script>", "console"),
    ],
)
def test_the_measurement_sees_what_is_wrong(damage: str, field: str, tmp_path: Path) -> None:
    """A page that sticks out, cannot be read, or tries to run a script is noticed."""
    page = tmp_path / "page.html"
    text = render_page(STATES["pass"]()).replace("</main>", f"{damage}</main>")
    page.write_text(text, encoding="utf-8")
    seen = measure({"page": page}, tmp_path, [360], dark=False)["page-360"]
    assert dataclasses.asdict(seen)[field] != ()
