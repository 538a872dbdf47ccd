"""The arm's breach state, whichever type a series returns it as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from armlib.production import production


def _get(state: Any, name: str) -> Any:
    return state[name] if isinstance(state, Mapping) else getattr(state, name)


def breach_state() -> dict[str, Any]:
    """`count`, `degraded`, and `first_tokens` and `first_declared` of the kept specimen (None before any)."""
    state = production("mq3d_breach_state")()
    first = _get(state, "first")
    return {
        "count": _get(state, "count"),
        "degraded": _get(state, "degraded"),
        "first_tokens": first and _get(first, "tokens"),
        "first_declared": first and _get(first, "declared"),
    }
