"""Every damage, in the order of the table in the docs."""

from __future__ import annotations

from ci.proof import accepted, controls, files, lines, plans, speed, tests_seen, values
from ci.proof.damage import Damage

DAMAGES: tuple[Damage, ...] = (
    *files.DAMAGES,
    *lines.DAMAGES,
    *plans.DAMAGES,
    *values.DAMAGES,
    *accepted.DAMAGES,
    *controls.DAMAGES,
    *tests_seen.DAMAGES,
    *speed.DAMAGES,
)
