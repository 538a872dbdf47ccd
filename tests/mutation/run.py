"""Mutation testing of ci/gate: each mutant in a forked process, with the tests that are about its module.

Run by ``nox -s mutation``. The parent imports what is heavy once; a child
replaces the source of one module before anything of ci is imported.
"""

from __future__ import annotations

import argparse
import enum
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
TIMEOUT_S = 30
SLOWER = 5
"""A mutant whose tests take so many times as long as those of the original came to no end."""
UNCHANGED_TIMEOUT_S = 600
MEMORY_BYTES = 2 << 30
"""Of the address space of a child: a loop without an end must not take the machine's memory with it."""
BROAD = (
    "tests/gate/gate/test_compare.py",
    "tests/gate/gate/test_compare_ab.py",
    "tests/gate/gate/test_acceptance.py",
    "tests/gate/commands/test_prove_red.py",
)
"""Behind a module's own tests, for what shows only from outside."""
ACCEPTED = ROOT / "tests" / "mutation" / "survivors.txt"
"""``module.py :: code :: what :: reason`` for each mutant that is known to survive."""


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


class End(enum.Enum):
    """How the tests of a mutant ended."""

    SURVIVED = "survived"
    FAILED = "failed"
    STUCK = "stuck"
    """They came to no end in time, which counts as killed."""


def try_mutant(module: Path, mutant: Mutant, tests: Sequence[str], timeout_s: float = TIMEOUT_S) -> End:
    """Run the tests with the mutant in place of the module."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        _run_child(module, mutant, tests)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return End.FAILED if os.waitstatus_to_exitcode(status) else End.SURVIVED
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return End.STUCK


def _run_child(module: Path, mutant: Mutant, tests: Sequence[str]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
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


def accepted_survivors() -> dict[tuple[str, str, str], str]:
    """Return (module, code, what) -> reason of the mutants that are known to survive."""
    found = {}
    for line in ACCEPTED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            module, code, what, reason = line.split(" :: ")
            found[module, code, what] = reason
    return found


def share(text: str) -> tuple[int, int]:
    """Return (part, parts) of a text such as ``1/4``; ValueError where it is none."""
    part, parts = (int(one) for one in text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part, parts


class Killed:
    """The mutants killed so far, one digest a line, so that a run that was ended goes on where it was.

    A survivor is not noted: it is tried again, and a new test may kill it. A
    mutant of a module that changed since has another digest. Tests that were
    taken away are not seen: begin a new file then.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.digests = set(path.read_text(encoding="utf-8").split()) if path and path.exists() else set()

    def has(self, module: Path, mutant: Mutant) -> bool:
        """Tell whether the mutant is noted."""
        return self._digest(module, mutant) in self.digests

    def add(self, module: Path, mutant: Mutant) -> None:
        """Note a mutant, at once."""
        if self.path:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(self._digest(module, mutant) + "\n")

    @staticmethod
    def _digest(module: Path, mutant: Mutant) -> str:
        return hashlib.sha256(f"{module.name}\n{mutant.source}".encode()).hexdigest()


Chosen = list[tuple[Path, Mutant]]


def choose(args: argparse.Namespace) -> Chosen:
    """Return the mutants that the options ask for, in the order of the source."""
    chosen = [
        (path, mutant)
        for path in sorted(GATE.glob("*.py"))
        if not args.module or path.stem in args.module
        for mutant in mutants(path.read_text(encoding="utf-8"))
    ]
    if args.sample and args.sample < len(chosen):
        chosen = random.Random(args.seed).sample(chosen, args.sample)
    part, parts = args.part
    return chosen[part - 1 :: parts]


def times_unchanged(paths: Iterable[Path]) -> dict[Path, float]:
    """Return how long the tests of each module take without a mutant, in seconds.

    Raises:
        ValueError: the tests of a module do not pass.
    """
    times = {}
    for path in paths:
        began = time.monotonic()
        unchanged = Mutant(0, "", path.read_text(encoding="utf-8"))
        if try_mutant(path, unchanged, tests_of(path), UNCHANGED_TIMEOUT_S) is not End.SURVIVED:
            raise ValueError(f"the tests of {path.name} fail without a mutant")
        times[path] = time.monotonic() - began
    return times


def judge(
    chosen: Chosen, noted: Killed, times: Mapping[Path, float]
) -> tuple[Counter[str], Counter[str], int]:
    """Run the mutants and print each survivor; return tried and killed per module, and how many listed."""
    reasons, total, dead, listed = accepted_survivors(), Counter[str](), Counter[str](), 0
    for path, mutant in chosen:
        total[path.name] += 1
        if noted.has(path, mutant):
            dead[path.name] += 1
            continue
        end = try_mutant(path, mutant, tests_of(path), max(TIMEOUT_S, SLOWER * times[path]))
        code = path.read_text(encoding="utf-8").splitlines()[mutant.line - 1].strip()
        where = f"{path.name}:{mutant.line}  {mutant.what}  {code}"
        if end is not End.SURVIVED:
            dead[path.name] += 1
            noted.add(path, mutant)
            if end is End.STUCK:
                print(f"{end.value:9} {where}", flush=True)
            continue
        reason = reasons.get((path.name, code, mutant.what))
        listed += reason is not None
        print(f"{end.value:9} {where}  [{reason or 'not listed'}]", flush=True)
    return total, dead, listed


def main(arguments: Sequence[str]) -> int:
    """Run the mutants and print survivors and score; 0 if the score reaches the goal."""
    parser = argparse.ArgumentParser(description="Mutation testing of ci/gate.")
    parser.add_argument("--sample", type=int, default=0, help="only so many mutants, drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", action="append", help="only this module, such as ab")
    parser.add_argument("--part", type=share, default=(1, 1), help="every Nth mutant, as K/N")
    parser.add_argument("--resume", type=Path, help="note the killed here, skip the noted")
    parser.add_argument("--goal", type=float, default=0.9)
    args = parser.parse_args(arguments)
    chosen = choose(args)
    if not chosen:
        print("verdict: no verdict - no mutant (exit 2)")
        return 2
    try:
        times = times_unchanged({path: None for path, _ in chosen})
    except ValueError as error:
        print(f"verdict: no verdict - {error} (exit 2)")
        return 2
    total, dead, listed = judge(chosen, Killed(args.resume), times)
    for name in sorted(total):
        print(f"{name:18} {dead[name]:4} of {total[name]:4} killed")
    killed_of = f"{dead.total()} of {total.total()} mutants killed"
    score = dead.total() / total.total()
    good = score >= args.goal
    left = total.total() - dead.total()
    survivors = f"{left} survived, {listed} of them listed with a reason"
    word = f"verdict: {'pass' if good else 'regressed'} - {killed_of} ({score:.1%}, goal {args.goal:.0%})"
    print(f"{word}, {survivors} (exit {0 if good else 1})")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
