"""A verdict that fills every part of the HTML page."""

from __future__ import annotations

import dataclasses

from ci.gate.ab import Design, Noise, decide
from ci.gate.rows import Band, Cause, GateVerdict, Row, SuiteVerdict, Value
from ci.gate.verdict import Verdict
from ci.proof.checkout import boots
from tests.gate.report.states import mixed
from tests.gate.samples import FIRST


def _bytes(case: str, metric: str, value: int) -> Row:
    shown = Value(value, "bytes")
    return Row(
        "cpu", "membudget", case, metric, Verdict.PASS, Cause.COMPARED, shown, shown, band=Band(value, value)
    )


def memory() -> SuiteVerdict:
    """Two boots, one of which allocates after the budget was fixed."""
    rows = (
        _bytes("seqs-8", "bytes_at_load", 118_358_016),
        _bytes("seqs-8", "bytes_after", 0),
        _bytes("seqs-16", "bytes_at_load", 236_716_032),
        _bytes("seqs-16", "bytes_after", 52_428_800),
    )
    return SuiteVerdict("cpu", "membudget", rows, 2, 2, 1, 1, 5, "patched")


def boots_on_a_gpu() -> SuiteVerdict:
    """The published rows of the RTX 3090, under the names that its suite records; one without free memory."""
    rows = (
        ("boots-16", {"at_load": 236_716_032, "load_rise": 235_929_600, "kv_fall": 278_921_216}),
        ("boots-16", {"free_rise": 484_442_112}),
        ("boots-32", {"at_load": 473_432_064, "load_rise": 483_393_536, "kv_fall": 493_879_296}),
    )
    shown = [
        dataclasses.replace(_bytes(case, metric, value), lane="rtx3090")
        for case, values in rows
        for metric, value in values.items()
    ]
    return SuiteVerdict("rtx3090", "membudget", tuple(shown), 2, 2, 1, 1, 5, "patched")


def _distance(lane: str, case: str, value: float, verdict: Verdict = Verdict.PASS) -> Row:
    return Row(
        lane,
        "oracle",
        case,
        "launcher_ref_flag1",
        verdict,
        Cause.COMPARED,
        Value(0.0286, "abs", "0.0286"),
        Value(value, "abs"),
        band=Band(None, 0.0372),
        accepted=FIRST,
        source="specification, table of the numerical check",
    )


def oracle() -> tuple[SuiteVerdict, ...]:
    """Two cases on two lanes, a third lane that has not run."""
    ours = (_distance("cpu", "hist-[9]", 0.0093), _distance("cpu", "units-[16,1]", 0.0372))
    theirs = (_distance("h200", "hist-[9]", 0.06, Verdict.REGRESSED),)
    return (
        SuiteVerdict("cpu", "oracle", ours, 2, 2, 1, 1, 5, "patched"),
        SuiteVerdict("h200", "oracle", theirs, 2, 1, 1, 1, 5, "patched"),
        SuiteVerdict("rtx3090", "oracle", (), 2, 0, 1, 0, None, ""),
    )


def speed() -> SuiteVerdict:
    """A held loss, a clean pass, and one that could not tell."""
    rows = []
    for case, slower, noise in (("held", 0.03, 0.0005), ("same", 0.0, 0.0005), ("noisy", 0.004, 0.003)):
        result = decide([boots(slower, "s1", noise=noise)], Design(0.005, 8), Noise(), higher_is_better=False)
        value = Value(10.0, "ms")
        rows.append(
            Row(
                "rtx4090",
                "throughput",
                case,
                "step_ms",
                result.verdict,
                Cause.COMPARED,
                value,
                value,
                why=result.why,
                ab=result,
            )
        )
    return SuiteVerdict("rtx4090", "throughput", tuple(rows), 3, 3, 1, 1, 5, "patched")


def rich() -> GateVerdict:
    """All of it together."""
    verdict = mixed()
    return dataclasses.replace(
        verdict, suites=(*verdict.suites, memory(), boots_on_a_gpu(), *oracle(), speed())
    )
