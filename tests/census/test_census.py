"""A boot with its debug lines on, asked for every width of batch: what each took, by the arm's own words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from armlib.boots import IN_PROCESS, LANE, arms, gpu_of, refuse

from ci.commands.boots import Session
from ci.commands.census import CensusBoot, boot_census, broken_boot, unfit, unreadable
from ci.commands.review import out_folder
from ci.engine.profile import load_profile
from ci.gate.census import broken_rules, verify_widths
from ci.report.census import render_census
from ci.results.census import Batch, Census

PROFILES = {"rtx3090": "rtx3090-census", "rtx4090": "rtx4090-depth15"}
"""Every other GPU boots the dummy."""
PROFILE = load_profile(PROFILES.get(LANE, "any-gpu-census15"))
WIDTHS = verify_widths(PROFILE.model.depth)
CASE = "census"


@pytest.fixture(scope="session")
def booted() -> CensusBoot:
    """The one boot that everything here is about."""
    with gpu_of("census"):
        session = Session(PROFILE, LANE, out_folder("boots", LANE, PROFILE.name), arms(), IN_PROCESS)
        one = boot_census(session, session.folder / "census")
    if unfit(one) or unreadable(one.census):
        refuse(broken_boot(one, PROFILE), remedy=f"look at {session.folder / 'census'}")
    return one


def test_rules(measure: Any, booted: CensusBoot) -> None:
    """Every width of the band is on 3D, prefill is on 2D by policy, nothing fell back, nothing breached."""
    census = booted.census
    print(render_census(census))
    on_3d = [width for width, paths in census.band_widths.items() if paths == {"3D"}]
    calls = {
        "verify_calls": census.count(verify=True),
        "verify_2d": census.count(path="2D", verify=True),
        "prefill_2d": census.count(path="2D", verify=False),
        "prefill_3d": census.count(path="3D", verify=False),
        "band_calls": census.band_calls,
        "capacity_fallbacks": census.capacity_fallbacks,
    }
    for metric, number in calls.items():
        measure(CASE, metric, number, unit="calls")
    measure(CASE, "widths_on_3d", len(on_3d), unit="widths")
    measure(CASE, "graph_mode", census.graph_mode, unit="name")
    measure(CASE, "breaches", booted.breaches, unit="breaches", reason="the engine could not be asked")
    measure(CASE, "degraded_lines", census.degraded_lines, unit="lines")
    capacity = booted.capacities[0] if len(booted.capacities) == 1 else None
    measure(CASE, "capacity", capacity, unit="tokens", reason=f"the boot declares {booted.capacities}")
    broken = broken_boot(booted, PROFILE)
    measure(CASE, "broken_rules", len(broken), unit="rules")
    assert not broken, "\n".join(broken)


def damaged(census: Census) -> dict[str, Census]:
    """The boot's own census, as it would be after something went wrong."""
    widest = max((one for one in census.calls if census.decodes(one)), key=lambda one: one.longest)
    fallen = Batch(widest.tokens, widest.seqs, widest.longest, "2D", "q_token_capacity_failed")
    without = {one: number for one, number in census.calls.items() if one != widest}
    return {
        "control-fallback": replace(census, calls={**without, fallen: census.calls[widest]}),
        "control-long-on-3d": replace(census, calls={**census.calls, Batch(40, 1, 40, "3D", "x"): 1}),
        "control-breach": replace(census, degraded_lines=1),
        "control-silent": replace(census, calls={}),
    }


@pytest.mark.parametrize(
    "name", ["control-fallback", "control-long-on-3d", "control-breach", "control-silent"]
)
def test_damaged_census_is_seen(measure: Any, booted: CensusBoot, name: str) -> None:
    """A batch that fell back, a prefill chunk on 3D, a breach and a boot without lines are each found."""
    red = bool(broken_rules(damaged(booted.census)[name], ()))
    measure.control(name, red=red)
    assert red


def test_missing_width_is_seen(measure: Any, booted: CensusBoot) -> None:
    """A width of the band that no batch had is found."""
    left = {one: number for one, number in booted.census.calls.items() if one.longest != 9}
    red = any("width 9" in one for one in broken_rules(replace(booted.census, calls=left), [9, *WIDTHS]))
    measure.control("control-missing-width", red=red)
    assert red
