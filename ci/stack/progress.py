"""What a long step reports while it runs; how it is shown is the command's business."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives what a step does."""

    def say(self, text: str) -> None:
        """One line worth reading."""

    def begin(self, what: str, total: int) -> None:
        """A transfer or loop of ``total`` bytes or items starts."""

    def advance(self, amount: int) -> None:
        """So much of it is done."""

    def end(self) -> None:
        """It is over, well or not."""


class Silent:
    """Reports nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def begin(self, what: str, total: int) -> None:
        """Nothing."""

    def advance(self, amount: int) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""
