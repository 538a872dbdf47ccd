"""What a comparison produces: rows, suites, and the verdict over all of them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ci.errors import ExitCode
from ci.gate.ab import AbResult
from ci.gate.verdict import Verdict, overall
from ci.results.jsonl import natural
from ci.results.records import Acceptance, Scalar


class Cause(enum.Enum):
    """Why a row got its verdict; decisions hang on this, never on the text."""

    COMPARED = "compared"
    CONTROL_GREEN = "control stayed green"
    NO_RESULT = "no result"
    NO_BASELINE = "no baseline"
    NOT_PLANNED = "not planned"
    NO_RULE = "no rule"
    UNREAD = "value unread"
    CONTROL_MARK = "control mark differs"
    UNIT = "unit differs"
    TYPE = "type differs"
    CONDITIONS = "conditions differ"
    REMEASURE = "to be measured anew"
    ARM = "arms swapped"
    FILE = "file unusable"
    TEST = "test red"


@dataclass(frozen=True)
class Value:
    """A value as it is shown."""

    value: Scalar
    unit: str
    printed: str | None = None


@dataclass(frozen=True)
class Band:
    """The values that pass; None where there is no bound."""

    low: float | None
    high: float | None


@dataclass(frozen=True)
class Row:
    """The verdict on one metric of one case, one test, or one file of a run."""

    lane: str
    suite: str
    case: str
    metric: str
    verdict: Verdict
    cause: Cause
    baseline: Value | None = None
    """None if there is none."""
    got: Value | None = None
    rule: str = ""
    """The policy line, such as ``policy.toml: rule 3 property/*/violations exact``."""
    why: str = ""
    remedy: str = ""
    control: bool = False
    accepted: Acceptance | None = None
    source: str | None = None
    """Where a transcribed baseline was published; None means that it was measured."""
    band: Band | None = None
    """Of a number that is compared with a number."""
    ab: AbResult | None = None
    """The numbers behind the verdict on an A/B metric."""

    @property
    def control_failed(self) -> bool:
        """Tell whether this row alone makes the run untrustworthy."""
        return self.cause is Cause.CONTROL_GREEN

    @property
    def order(self) -> tuple[bool, int, str, str, tuple[str | int, ...], tuple[str | int, ...]]:
        """Return the sort key: failed controls, then the worst first, then by name."""
        return (
            not self.control_failed,
            self.verdict.rank,
            self.lane,
            self.suite,
            natural(self.case),
            natural(self.metric),
        )


@dataclass(frozen=True)
class SuiteVerdict:
    """All rows of one suite on one lane."""

    lane: str
    suite: str
    rows: tuple[Row, ...]
    cases_planned: int = 0
    cases_measured: int = 0
    controls_planned: int = 0
    controls_red: int = 0
    tests_executed: int | None = None
    subject: str = ""
    """The arm that the run was about."""
    warnings: tuple[str, ...] = ()
    unlisted: Mapping[Verdict, int] = field(default_factory=dict)
    """Rows that were counted and not kept, by verdict; treat as read-only."""

    @property
    def control_failed(self) -> bool:
        """Tell whether a control of this suite stayed green."""
        return any(row.control_failed for row in self.rows)

    @property
    def verdict(self) -> Verdict:
        """Return the suite's verdict; a suite without rows is invalid."""
        return overall(self.counts, self.control_failed)[0]

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code that this suite alone leads to."""
        return overall(self.counts, self.control_failed)[1]

    @property
    def counts(self) -> Counter[Verdict]:
        """Return how many rows there are of each verdict, kept or not."""
        return Counter(row.verdict for row in self.rows) + Counter(self.unlisted)


@dataclass(frozen=True)
class GateVerdict:
    """The verdict over several suites."""

    suites: tuple[SuiteVerdict, ...]
    notes: tuple[str, ...] = ()
    """Remarks that change no verdict, such as a rule that nothing uses."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return all rows, the worst first."""
        return tuple(sorted((row for suite in self.suites for row in suite.rows), key=lambda row: row.order))

    @property
    def outcome(self) -> tuple[Verdict, ExitCode]:
        """Return the joined verdict and exit code."""
        verdicts = [suite.verdict for suite in self.suites]
        return overall(verdicts, any(suite.control_failed for suite in self.suites))

    @property
    def detail(self) -> str:
        """Say in a few words what led to the outcome."""
        green = [f"{row.lane}/{row.suite} {row.case}" for row in self.rows if row.control_failed]
        if green:
            more = f" and {len(green) - 1} more" if len(green) > 1 else ""
            return f"control {green[0]}{more} stayed green, so nothing in this run counts"
        counts = sum((suite.counts for suite in self.suites), Counter[Verdict]())
        total = sum(counts.values())
        where = f"{_plural(len(self.suites), 'suite')} on {', '.join(self._lanes) or 'no lane'}"
        if not total:
            return f"nothing was compared: {where}"
        worse = [f"{counts[one]} {one.value}" for one in Verdict if counts[one] and one is not Verdict.PASS]
        if not worse:
            return f"{_plural(total, 'check')} in {where}"
        return f"{', '.join(worse)} of {_plural(total, 'check')} in {where}"

    @property
    def _lanes(self) -> list[str]:
        return list(dict.fromkeys(suite.lane for suite in self.suites))


def _plural(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
