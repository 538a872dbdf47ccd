from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ci.lanes.process import run_logged, terminated_as_interrupted

ROOT = Path(__file__).parents[3]


def test_output_is_shown_and_kept(tmp_path: Path) -> None:
    """Both streams of the child go to the log and to the person, and its exit status comes back."""
    shown = io.StringIO()
    source = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(5)"
    log = tmp_path / "console.log"
    code = run_logged([sys.executable, "-c", source], cwd=tmp_path, env=dict(os.environ), log=log, show=shown)
    assert code == 5
    assert sorted(log.read_text().split()) == ["err", "out"]
    assert shown.getvalue() == log.read_text()


def test_a_signal_is_told_from_an_exit_status(tmp_path: Path) -> None:
    """A child that a signal ended has minus the signal's number as its status."""
    source = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    log = tmp_path / "console.log"
    assert (
        run_logged([sys.executable, "-c", source], cwd=tmp_path, env={}, log=log, show=io.StringIO()) == -11
    )


def test_a_grandchild_does_not_outlive_the_run(tmp_path: Path) -> None:
    """A process that the child left behind is ended, although it still holds the child's output."""
    source = (
        "import subprocess, sys\n"
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(left.pid, flush=True)\n"
    )
    log = tmp_path / "console.log"
    code = run_logged([sys.executable, "-c", source], cwd=tmp_path, env={}, log=log, show=io.StringIO())
    assert code == 0
    assert gone(int(log.read_text()))


def test_a_cancelled_run_ends_its_suite(tmp_path: Path) -> None:
    """SIGTERM to the gate ends the child that ignores SIGINT, and the gate ends as interrupted."""
    child = (
        "import os, signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "print(os.getpid(), flush=True); time.sleep(60)"
    )
    source = (
        "import os, sys\nfrom pathlib import Path\nfrom ci.lanes import process\n"
        "process.GRACE_S = 0.3\n"
        f"command = [sys.executable, '-c', {child!r}]\n"
        "try:\n"
        "    process.run_logged(command, cwd=Path(), env=dict(os.environ), log=Path('console.log'))\n"
        "except KeyboardInterrupt:\n    sys.exit(130)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    gate = subprocess.Popen(
        [sys.executable, "-c", source], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True
    )
    assert gate.stdout is not None
    pid = int(gate.stdout.readline())
    gate.send_signal(signal.SIGTERM)
    assert gate.wait(timeout=30) == 130
    assert gone(pid)


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie that nobody reaps has), waiting a little for the kernel."""
    for _ in range(100):
        status = Path(f"/proc/{pid}/stat")
        try:
            if status.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_ignored_signal_still_interrupts(number: signal.Signals) -> None:
    """In the background of a script both may be ignored; a cancelled job has to end all the same."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), terminated_as_interrupted():
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)
