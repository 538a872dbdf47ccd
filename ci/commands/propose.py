"""``python -m ci propose``: the accepted baselines as a pull request, whose diff is the review."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ci.commands import review
from ci.errors import ExitCode, GateError, UsageError
from ci.lanes.github import this_repository
from ci.report.markdown import prose
from ci.report.words import plain

EPILOG = """\
examples:
  python -m ci propose --run 1234567 --why "new driver on the 3090"

Commits what `python -m ci accept` changed in baselines/, and nothing else, to a branch of its own.
With GH_TOKEN of an app: checks do not start for what a workflow's own token opens.
"""
IDENTITY = ("-c", "user.name=forkproof", "-c", "user.email=forkproof@users.noreply.github.com")
CREDENTIALS = ("-c", "credential.helper=", "-c", "credential.helper=!gh auth git-credential")
"""First forget every other helper, then ask gh, which takes the token from the environment."""
TITLE_CHARS = 60


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
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Commit, push, open."""
    github, folder = this_repository(), review.default_baselines()
    if not changed(folder):
        raise UsageError(f"nothing changed in {folder}", remedy="python -m ci accept --why ...")
    branch = f"accept/run-{args.run}"
    commit(folder, branch, title(args.why), args.run)
    git([*CREDENTIALS, "push", f"https://github.com/{github.repository}.git", f"HEAD:refs/heads/{branch}"])
    link = f"https://github.com/{github.repository}/actions/runs/{args.run}"
    github.open_pull(title(args.why), branch, args.base, f"{prose(args.why)}\n\nMeasured by {link}\n")
    print(f"verdict: pass - proposed as {branch} (exit 0)")
    return ExitCode.PASS


def title(why: str) -> str:
    """One short line."""
    return f"Accept baselines: {plain(why, TITLE_CHARS)}"


def changed(folder: Path) -> bool:
    """Whether git sees a change in the folder, new files included."""
    return bool(git(["status", "--porcelain", "--", str(folder)]).strip())


def commit(folder: Path, branch: str, message: str, number: int) -> None:
    """Commit the folder, and only it, on a new branch."""
    git(["switch", "--create", branch])
    git(["add", "--", str(folder)])
    git(
        [
            *IDENTITY,
            "commit",
            "--quiet",
            "-m",
            message,
            "-m",
            f"Measured by run {number:d}.",
            "--",
            str(folder),
        ]
    )


def git(arguments: Sequence[str]) -> str:
    """What git prints.

    Raises:
        GitFailedError: with git's last words.
    """
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no output"]
        step = next(word for word in arguments if not word.startswith("-") and "=" not in word)
        raise GitFailedError(f"git {step}: {said[-1]}", remedy="git status")
    return done.stdout
