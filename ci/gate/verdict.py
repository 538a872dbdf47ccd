"""The closed set of verdicts, and how several become one verdict and one exit code."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from ci.errors import ExitCode


class Verdict(enum.Enum):
    """What a comparison says, the worst first: the order in which rows are shown."""

    REGRESSED = "regressed"
    """Worse than the policy allows, beside the baseline or, at a limit, alone."""
    INVALID = "invalid"
    """There is a result, but it cannot be compared or trusted."""
    MISSING = "missing"
    """Planned or accepted, but not measured."""
    INCONCLUSIVE = "inconclusive"
    """Measured, but not often enough to tell."""
    NEW = "new"
    """Measured within every limit, but never accepted."""
    IMPROVED = "improved"
    """Better than the baseline by more than its margin; asks for a refresh."""
    PASS = "pass"  # noqa: S105 - the word of the verdict

    @property
    def exit_code(self) -> ExitCode:
        """Return the code that this verdict alone leads to."""
        if self in (Verdict.PASS, Verdict.IMPROVED):
            return ExitCode.PASS
        return ExitCode.REGRESSED if self is Verdict.REGRESSED else ExitCode.NO_VERDICT

    @property
    def rank(self) -> int:
        """Return the place in the order worst first."""
        return _RANKS[self.value]


_RANKS = {verdict.value: rank for rank, verdict in enumerate(Verdict)}


def overall(verdicts: Iterable[Verdict], control_failed: bool) -> tuple[Verdict, ExitCode]:
    """Join verdicts: a failed control before everything, then the worst; none at all is invalid."""
    worst = min(verdicts, key=lambda verdict: verdict.rank, default=Verdict.INVALID)
    if control_failed:
        return Verdict.INVALID, ExitCode.CONTROL_FAILED
    return worst, worst.exit_code


def verdict_word(verdict: Verdict, code: ExitCode) -> str:
    """Return the word that a reader sees: the verdict's, unless a control failed."""
    return "control failed" if code is ExitCode.CONTROL_FAILED else verdict.value


def last_line(verdict: Verdict, detail: str, code: ExitCode) -> str:
    """Return the last line that every command with a verdict prints."""
    return f"verdict: {verdict_word(verdict, code)} - {detail} (exit {int(code)})"
