"""Failures that a user can act on.

Every failure says what happened, its likely cause where one is known, and the
command or edit that mends it.  The exit code travels with the class, so that a
command never has to guess it.
"""

from __future__ import annotations

import enum
from typing import ClassVar


class ExitCode(enum.IntEnum):
    """Exit codes of every ``python -m ci`` command."""

    PASS = 0
    """Every planned metric passed or improved."""
    REGRESSED = 1
    """At least one metric is worse than its baseline allows."""
    NO_VERDICT = 2
    """Invalid, missing, new or inconclusive results, or unusable input."""
    CONTROL_FAILED = 3
    """A check that had to turn red stayed green; nothing this run says counts."""


class GateError(Exception):
    """A failure with a remedy.

    Args:
        what: what happened, naming the file and line where there is one.
        cause: the likely cause, when the message alone does not show it.
        remedy: the command or edit that mends it.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.NO_VERDICT

    def __init__(self, what: str, *, cause: str | None = None, remedy: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.cause = cause
        self.remedy = remedy

    def __str__(self) -> str:
        lines = [self.what]
        if self.cause:
            lines.append(f"  cause:  {self.cause}")
        if self.remedy:
            lines.append(f"  remedy: {self.remedy}")
        return "\n".join(lines)

    @property
    def in_one_line(self) -> str:
        """The same where a sentence has to hold it."""
        return "; ".join(line.strip() for line in str(self).splitlines())


class UsageError(GateError):
    """The command line or a setting is not usable as given."""


class IncomparableError(GateError):
    """What was measured must not be compared, so it says nothing about the patches."""
