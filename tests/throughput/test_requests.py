"""What may not enter a throughput: a stream that was cut, and a boot of another arm."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ci.engine.client import Failure, Piece, RequestFailedError, read_stream
from ci.engine.identity import arm_seen, identity_problems, parse_arm

CHUNK = b'data: {"choices": [{"index": 0, "text": "word"}]}\n\n'
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}\n\n'
DONE = b"data: [DONE]\n\n"


def failure_of(data: bytes) -> Failure | None:
    """How a stream failed; None if it did not."""
    try:
        read_stream(0.0, [Piece(1.0, data)])
    except RequestFailedError as error:
        return error.failure
    return None


def test_cut_stream_is_a_failed_request(measure: Any) -> None:
    """A whole stream counts; the same without its end, its usage or its last bytes does not."""
    whole = CHUNK * 2 + USAGE + DONE
    assert failure_of(whole) is None
    cut = [failure_of(CHUNK * 2 + USAGE), failure_of(CHUNK * 2 + DONE), failure_of(whole[:-40])]
    red = cut == [Failure.NO_DONE, Failure.NO_USAGE, Failure.CUT]
    measure.control("control-cut-stream", red=red)
    assert red, cut


def test_other_arm_is_refused(measure: Any) -> None:
    """Processes that import from another folder or run under another flag are not the arm."""
    arm = parse_arm("patched+VLLM_INT4_MQ_3D=1")
    root = Path(os.environ["FORKPROOF_ARM_ROOT"])
    good = {"PYTHONPATH": f"{root}{os.pathsep}/elsewhere", "VLLM_INT4_MQ_3D": "1"}
    assert identity_problems(arm_seen([good], root, "hash", arm.flags), arm, "hash") == []
    others = ({**good, "PYTHONPATH": "/elsewhere"}, {**good, "VLLM_INT4_MQ_3D": "0"})
    red = all(identity_problems(arm_seen([other], root, "hash", arm.flags), arm, "hash") for other in others)
    red = red and bool(identity_problems(arm_seen([good], root, "other", arm.flags), arm, "hash"))
    measure.control("control-other-arm", red=red)
    assert red
