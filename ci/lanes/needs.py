"""Whether every job that a last job waits for succeeded: a job that is skipped or cancelled did not."""

from __future__ import annotations

import msgspec

from ci.errors import GateError

SUCCESS = "success"


class NeedsError(GateError):
    """What the workflow says about its jobs is not readable."""


def unmet(data: bytes) -> list[tuple[str, str]]:
    """Jobs without success, each with its result, from ``toJSON(needs)``.

    Raises:
        NeedsError: it is not what GitHub writes, or names no job at all.
    """
    try:
        needs = msgspec.json.decode(data, type=dict[str, dict[str, object]])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NeedsError(f"the workflow's needs cannot be read: {error}") from error
    if not needs:
        raise NeedsError("the workflow's needs name no job", remedy="needs: [...] in the last job")
    results = [(name, str(job.get("result"))) for name, job in needs.items()]
    return [(name, result) for name, result in results if result != SUCCESS]
