"""One verdict per state that a report can show; the golden files are what a reader then sees."""

from __future__ import annotations

from ci.gate.rows import GateVerdict
from ci.results.folder import RECORDS_FILE, FileProblem
from tests.gate.samples import JUNIT_TEXT, Sample

HOSTILE = (
    "a|b`c`<script>x</script> @team #1 </details> ::error::x "
    "http://evil.example www.evil.example [l](u) **b** \\|"
)


def passed() -> GateVerdict:
    """Everything passes."""
    return GateVerdict((Sample().verdict(),))


def regressed() -> GateVerdict:
    """One value differs, and a rule is unused."""
    sample = Sample()
    sample.accept("grid", "violations", 7, "vectors")
    return GateVerdict((sample.verdict(),), ("policy.toml: rule 9 a/b/c exact: no planned metric uses it",))


def mixed() -> GateVerdict:
    """One of each, in two suites."""
    sample = Sample()
    sample.measure("boot", "step_ms", 9.0, "ms")
    sample.measure("boot", "bytes", 3 * 1024**3, "bytes")
    sample.measure("extra", "violations", 0)
    sample.measure("grid", "violations", None, reason="line 7 of boot.log not found")
    del sample.records["control-seq-rows", "violations"]
    return GateVerdict((Sample().verdict(), sample.verdict()))


def control_failed() -> GateVerdict:
    """A deliberate break was not noticed."""
    sample = Sample()
    sample.measure("control-seq-rows", "red", False, "bool", control=True)
    sample.measure("grid", "violations", 1)
    return GateVerdict((sample.verdict(),))


def new() -> GateVerdict:
    """Nothing was ever accepted."""
    return GateVerdict((Sample(has_baseline=False).verdict(),))


def missing() -> GateVerdict:
    """The records are gone."""
    problem = FileProblem(
        RECORDS_FILE, True, "records.jsonl: no such file", "python -m ci run property --lane cpu"
    )
    return GateVerdict((Sample(has_results=False, problems=(problem,)).verdict(),))


def conditions() -> GateVerdict:
    """Measured on another vLLM than accepted."""
    sample = Sample()
    sample.run_conditions["vllm"] = "0.28.0"
    return GateVerdict((sample.verdict(),))


def hostile() -> GateVerdict:
    """Every foreign text tries to break out."""
    sample = Sample()
    sample.measure(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    sample.run_conditions["vllm"] = HOSTILE
    attribute = HOSTILE.replace("<", "&lt;").replace(">", "&gt;")
    failure = f'<failure message="&#10;::error::{attribute}"/>'
    case = f'<testcase classname="t" name="{attribute}">{failure}</testcase>'
    sample.junit_text = JUNIT_TEXT.replace("</testsuite>", f"{case}</testsuite>")
    return GateVerdict((sample.verdict(),), (HOSTILE,))


def nothing() -> GateVerdict:
    """No suite at all."""
    return GateVerdict(())


STATES = {
    "pass": passed,
    "regressed": regressed,
    "mixed": mixed,
    "control-failed": control_failed,
    "new": new,
    "missing": missing,
    "conditions": conditions,
    "hostile": hostile,
    "nothing": nothing,
}


def many(rows: int) -> GateVerdict:
    """A verdict with many rows, the last of them the worst."""
    sample = Sample()
    for number in range(rows):
        sample.measure(f"extra-{number}", "violations", 0)
    sample.measure("grid", "violations", 1)
    return GateVerdict((sample.verdict(),))
