"""Mutation testing of ci/gate: each mutant in a forked process, with the tests that are about its module.

Run by ``nox -s mutation``. The parent imports what is heavy once; a child
replaces the source of one module before anything of ci is imported.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import hypothesis
import junitparser  # noqa: F401 - imported before the forks
import lxml.etree  # noqa: F401
import markdown_it  # noqa: F401
import msgspec  # noqa: F401
import pytest
import rich.console  # noqa: F401

from tests.mutation.mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
GATE = ROOT / "ci" / "gate"
TIMEOUT_S = 60
BROAD = (
    "tests/gate/gate/test_compare.py",
    "tests/gate/gate/test_acceptance.py",
    "tests/gate/commands/test_prove_red.py",
)
"""Behind a module's own tests, for what shows only from outside."""
ACCEPTED = ROOT / "tests" / "mutation" / "survivors.txt"
"""``module.py: code: what: reason`` for each mutant that no test can tell from the original."""


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads one module from changed source."""

    source = b""

    def get_data(self, path: str) -> bytes:
        """Return the mutant instead of the file."""
        return self.source if path.endswith(".py") else super().get_data(path)

    def get_code(self, fullname: str) -> object:
        """Compile anew: the cached bytecode is that of the file."""
        return compile(self.source, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, path: Path, source: str) -> None:
        self.name, self.path = name, str(path)
        self.loader = _Loader(name, self.path)
        self.loader.source = source.encode()

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> object:
        """Return the mutant's spec for its module, nothing for others."""
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self.loader)


def tests_of(module: Path) -> list[str]:
    """Return the test files that are tried on a mutant of ``module``, the nearest first."""
    own = ROOT / "tests" / "gate" / "gate" / f"test_{module.stem}.py"
    return [str(own.relative_to(ROOT))] * own.exists() + [one for one in BROAD if not one.endswith(own.name)]


def killed(module: Path, mutant: Mutant, tests: Sequence[str]) -> bool:
    """Tell whether a test fails, or nothing comes to an end, with the mutant in place of the module."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        _run_child(module, mutant, tests)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) != 0
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def _run_child(module: Path, mutant: Mutant, tests: Sequence[str]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    status = 1
    try:
        os.chdir(ROOT)
        sys.meta_path.insert(0, _Finder(f"ci.gate.{module.stem}", module, mutant.source))
        hypothesis.settings.register_profile("mutation", max_examples=25, database=None, deadline=None)
        hypothesis.settings.load_profile("mutation")
        for test in tests:
            status = int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", test]))
            if status:
                break
    finally:
        os._exit(1 if status else 0)


def accepted_survivors() -> set[tuple[str, str, str]]:
    """Return (module, code, what) of the mutants that are known to be equivalent."""
    found = set()
    for line in ACCEPTED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            module, code, what, _ = line.split(" :: ")
            found.add((module, code, what))
    return found


def main(arguments: Sequence[str]) -> int:
    """Run the mutants and print survivors and score; 0 if the score reaches the goal."""
    parser = argparse.ArgumentParser(description="Mutation testing of ci/gate.")
    parser.add_argument("--sample", type=int, default=0, help="only so many mutants, drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", action="append", help="only this module, such as ab")
    parser.add_argument("--goal", type=float, default=0.9)
    args = parser.parse_args(arguments)
    chosen = [
        (path, mutant)
        for path in sorted(GATE.glob("*.py"))
        if not args.module or path.stem in args.module
        for mutant in mutants(path.read_text(encoding="utf-8"))
    ]
    if args.sample and args.sample < len(chosen):
        chosen = random.Random(args.seed).sample(chosen, args.sample)
    for path in {path for path, _ in chosen}:
        unchanged = Mutant(0, "", path.read_text(encoding="utf-8"))
        if killed(path, unchanged, tests_of(path)):
            print(f"verdict: no verdict - the tests of {path.name} fail without a mutant (exit 2)")
            return 2
    known = accepted_survivors()
    total: Counter[str] = Counter()
    dead: Counter[str] = Counter()
    equivalent = 0
    for path, mutant in chosen:
        code = path.read_text(encoding="utf-8").splitlines()[mutant.line - 1].strip()
        if (path.name, code, mutant.what) in known:
            equivalent += 1
            continue
        total[path.name] += 1
        if killed(path, mutant, tests_of(path)):
            dead[path.name] += 1
        else:
            print(f"survived  {path.name}:{mutant.line}  {mutant.what}  {code}", flush=True)
    for name in sorted(total):
        print(f"{name:18} {dead[name]:4} of {total[name]:4} killed")
    if not total:
        print("verdict: no verdict - no mutant (exit 2)")
        return 2
    score, count = sum(dead.values()) / sum(total.values()), f"{sum(dead.values())} of {sum(total.values())}"
    good = score >= args.goal
    word = f"verdict: {'pass' if good else 'regressed'} - {count} mutants killed"
    known_too = f"{equivalent} known equivalents left out"
    print(f"{word} ({score:.1%}, goal {args.goal:.0%}), {known_too} (exit {0 if good else 1})")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
