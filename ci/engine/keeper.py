"""Stands between harness and server, so that the server never outlives the harness.

`python -m ci.engine.keeper LOG COMMAND...` starts the command in a session of its own with its output in LOG.
It ends it when its own standard input closes (the harness is gone, by whatever signal), on SIGINT or SIGTERM,
and says on standard output what happened, one JSON object a line.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from types import FrameType

from ci.engine.orphans import MARK, end_marked

STEPS: tuple[tuple[signal.Signals, float], ...] = (
    (signal.SIGINT, 3.0),
    (signal.SIGTERM, 1.5),
    (signal.SIGKILL, 0.5),
)
"""Signal to the group, and seconds to wait after it: five in all, of the seven that a cancelled job has."""
SWEEP_S = 1.0
POLL_S = 0.05
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def die_with_parent() -> None:
    """In the child: be killed when the keeper is, should that be killed without a chance to act."""
    process_control(PR_SET_PDEATHSIG, signal.SIGKILL)


def process_control(option: int, value: int) -> None:
    """Linux's prctl; elsewhere nothing happens, and the sweep by mark has to do."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value)


def shut_down(server: subprocess.Popen[bytes]) -> None:
    """End the server's group: asked first, then told, then killed."""
    for number, patience in STEPS:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(server.pid, number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if server.poll() is not None:
                reap()
                if not group_lives(server.pid):
                    return
            time.sleep(POLL_S)


def reap() -> None:
    """Collect grandchildren that have ended, once the server has: until then their group looks alive."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def group_lives(leader: int) -> bool:
    """Whether the group has any process left."""
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def main() -> int:
    """Keep one server until it ends or nobody wants it any more."""
    stopping = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    process_control(PR_SET_CHILD_SUBREAPER, 1)
    with open(sys.argv[1], "ab") as log:  # noqa: PTH123 - bytes of another process, appended
        server = subprocess.Popen(
            sys.argv[2:],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        say(pid=server.pid)
        while server.poll() is None and not stopping and not input_closed():
            pass
        ended_by_itself = server.poll() is not None
        shut_down(server)
    swept = end_marked(os.environ.get(MARK, ""), SWEEP_S)
    say(exit=server.poll(), by_itself=ended_by_itself, swept=swept)
    return 0


def input_closed() -> bool:
    """Whether standard input has ended; waits a moment for it."""
    ready, _, _ = select.select([0], [], [], POLL_S)
    return bool(ready) and os.read(0, 1) == b""


def say(**facts: object) -> None:
    """One line to the harness, which may be gone."""
    with suppress(OSError):
        os.write(1, json.dumps(facts).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
