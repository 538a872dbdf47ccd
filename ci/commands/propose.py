"""``python -m ci propose``: the accepted baselines as a pull request, whose diff is the review."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ci.errors import ExitCode, GateError, UsageError
from ci.lanes.github import this_repository
from ci.report.markdown import prose
from ci.report.words import plain

EPILOG = """\
examples:
  python -m ci propose --run 1234567 --why "new driver on the 3090"
  python -m ci propose --run 1234567 --why "vLLM 0.28.0" --checkout target --base vllm-0.28.0

Commits what `python -m ci accept` changed in baselines/, and nothing else, to a branch of its own.
With GH_TOKEN of an app: checks do not start for what a workflow's own token opens.
"""
IDENTITY = ("-c", "user.name=forkproof", "-c", "user.email=forkproof@users.noreply.github.com")
CREDENTIALS = ("-c", "credential.helper=", "-c", "credential.helper=!gh auth git-credential")
"""First forget every other helper, then ask gh, which takes the token from the environment."""
TITLE_CHARS = 60
FOLDER = "baselines"


class GitFailedError(GateError):
    """git refused a step."""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "propose",
        help="open a pull request with the accepted baselines",
        description="Open a pull request that changes baselines/ and nothing else.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--run", type=int, required=True, metavar="NUMBER", help="the run that measured them")
    parser.add_argument("--why", required=True, help="the reason, as given to accept")
    parser.add_argument("--base", default="main", help="the branch to merge into (default: %(default)s)")
    parser.add_argument(
        "--checkout",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="the branch's checkout (default: this one)",
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Commit, push, open."""
    github, checkout = this_repository(), args.checkout
    if not changed(checkout):
        raise UsageError(f"nothing changed in {checkout / FOLDER}", remedy="python -m ci accept --why ...")
    branch = f"accept/run-{args.run}"
    commit(checkout, branch, title(args.why), args.run)
    address = f"https://github.com/{github.repository}.git"
    git(checkout, [*CREDENTIALS, "push", address, f"HEAD:refs/heads/{branch}"])
    link = f"https://github.com/{github.repository}/actions/runs/{args.run}"
    github.open_pull(title(args.why), branch, args.base, f"{prose(args.why)}\n\nMeasured by {link}\n")
    print(f"verdict: pass - proposed as {branch} (exit 0)")
    return ExitCode.PASS


def title(why: str) -> str:
    """One short line."""
    return f"Accept baselines: {plain(why, TITLE_CHARS)}"


def changed(checkout: Path) -> bool:
    """Whether git sees a change in the baselines, new files included."""
    return bool(git(checkout, ["status", "--porcelain", "--", FOLDER]).strip())


def commit(checkout: Path, branch: str, message: str, number: int) -> None:
    """Commit the baselines, and only them, on a new branch."""
    git(checkout, ["switch", "--create", branch])
    git(checkout, ["add", "--", FOLDER])
    words = ["commit", "--quiet", "-m", message, "-m", f"Measured by run {number:d}.", "--", FOLDER]
    git(checkout, [*IDENTITY, *words])


def git(checkout: Path, arguments: Sequence[str]) -> str:
    """What git prints in a checkout.

    Raises:
        GitFailedError: with git's last words.
    """
    command = ["git", "-C", str(checkout), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no output"]
        step = next(word for word in arguments if not word.startswith("-") and "=" not in word)
        raise GitFailedError(f"git {step}: {said[-1]}", remedy="git status")
    return done.stdout
