"""A/A sessions of a lane: an arm against itself, from which a comparison learns the lane's noise."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import msgspec

from ci.errors import GateError
from ci.results.files import read_limited, write_atomic
from ci.results.records import SCHEMA_VERSION, AaSession, AbSession

AA_FILE = "aa.jsonl"
MAX_FILE_BYTES = 16 << 20
BLOCK = "ABBA"
"""The order in which boots run; a drift in time cancels over a whole block."""
_REMEDY = "restore the file from git, or measure the session again"
_DECODER = msgspec.json.Decoder(AaSession, strict=True)


class AaError(GateError):
    """An A/A file that cannot be used."""


def session_problem(session: AbSession) -> str | None:
    """Return what keeps ``session`` from being compared, or None."""
    if len(session.order) != len(session.values):
        return f"{len(session.values)} values for {len(session.order)} boots"
    if not session.order or session.order != (BLOCK * len(session.order))[: len(session.order)]:
        return f"the boots ran in the order {session.order[:40]!r}, the plan is A B B A"
    if not all(math.isfinite(value) and value > 0 for value in session.values):
        return "a value is not a positive number"
    return None if session.run else "the session has no run identifier"


def read_aa(path: Path) -> tuple[AaSession, ...]:
    """Read the A/A sessions of a lane; no file means none.

    Raises:
        AaError: a line that is no usable A/A session, or a session that stands there twice.
    """
    if not path.exists() and not path.is_symlink():
        return ()
    sessions = []
    for number, line in enumerate(read_limited(path, MAX_FILE_BYTES).split(b"\n"), 1):
        if line.strip():
            sessions.append(_read_line(path, number, line))
    keys = [_key(one) for one in sessions]
    for key in keys:
        if keys.count(key) > 1:
            raise AaError(
                f"{path}: session {key[3]!r} of {key[0]}/{key[1]} stands there twice", remedy=_REMEDY
            )
    return tuple(sessions)


def write_aa(path: Path, sessions: Iterable[AaSession]) -> None:
    """Write the sessions in canonical form."""
    write_atomic(path, encode_aa(sessions))


def encode_aa(sessions: Iterable[AaSession]) -> bytes:
    """Return the canonical bytes: sorted, one session a line."""
    ordered = sorted(sessions, key=_key)
    return b"".join(msgspec.json.encode(one, order="deterministic") + b"\n" for one in ordered)


def _key(one: AaSession) -> tuple[str, str, str, str]:
    return one.suite, one.case, one.metric, one.session.run


def _read_line(path: Path, number: int, line: bytes) -> AaSession:
    try:
        decoded = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        _refuse(path, number, str(error))
    if decoded.schema != SCHEMA_VERSION:
        _refuse(path, number, f"schema {decoded.schema}, this gate reads schema {SCHEMA_VERSION}")
    if decoded.session.arms[0] != decoded.session.arms[1]:
        _refuse(path, number, "the arms differ, so the session holds more than noise")
    problem = session_problem(decoded.session)
    if problem is not None:
        _refuse(path, number, problem)
    return decoded


def _refuse(path: Path, number: int, what: str) -> NoReturn:
    raise AaError(f"{path}:{number}: {what}", remedy=_REMEDY)
