"""The command line: one parser, one table of commands, one place where errors end.

A command is a module with ``add(subparsers)``, which registers a parser and
sets its ``func`` to a ``run(args) -> ExitCode``.  Two things are decided here
for all of them:

* what stands after ``--`` is kept apart as ``args.rest``; a command that takes
  it says so with ``set_defaults(takes_rest=True)``, and then options that it
  does not know go there too;
* a ``GateError`` ends in its message, its remedy and one last line that agrees
  with the exit code; so does whatever else is raised, because Python's own exit
  code for a traceback is 1, which means "regressed" here.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

from ci.commands import (
    accept,
    bench,
    blame,
    boots,
    bundle,
    calibrate,
    census,
    collect,
    diff,
    dispatch,
    doctor,
    drift,
    explain,
    gate,
    import_verdicts,
    matrix,
    needs,
    plot,
    propose,
    prove_red,
    quality,
    rehearse,
    repin,
    run,
    stack,
    sweep,
    throughput,
    trend,
    verdict,
)
from ci.errors import ExitCode, GateError, UsageError

COMMANDS: tuple[ModuleType, ...] = (
    gate,
    run,
    stack,
    diff,
    accept,
    verdict,
    explain,
    trend,
    plot,
    blame,
    prove_red,
    calibrate,
    bench,
    boots,
    census,
    bundle,
    collect,
    dispatch,
    doctor,
    drift,
    matrix,
    needs,
    propose,
    quality,
    rehearse,
    repin,
    sweep,
    throughput,
    import_verdicts,
)
"""Every command, in the order ``--help`` lists them."""

INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""

WORDS = {
    ExitCode.PASS: "pass",
    ExitCode.REGRESSED: "regressed",
    ExitCode.NO_VERDICT: "no verdict",
    ExitCode.CONTROL_FAILED: "control failed",
}
"""The word of the last line for each exit code."""

EPILOG = """\
examples:
  python -m ci stack build                  the arms: the stock wheel plus prefixes of the series
  python -m ci run property pool            two suites against the whole series, with their verdict
  python -m ci run property --arm mq3d      the same suite against another arm
  python -m ci diff                         every result on disk against the baselines
  python -m ci accept --why "new pin"       take the results over as baselines

exit codes:
  0 pass   1 regressed   2 no verdict (invalid, missing, new, inconclusive, unusable input)
  3 a control stayed green, so nothing this run says counts
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors end like every other error of the gate.

    Options are not abbreviated: what the gate does not know may be meant for pytest.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - argparse's own arguments
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        """Raise UsageError instead of leaving the process."""
        raise UsageError(f"{self.prog}: {message}", remedy=f"{self.prog} --help")


def build_parser(commands: Sequence[ModuleType] = COMMANDS) -> Parser:
    """The parser with every command registered."""
    parser = Parser(
        prog="python -m ci",
        description="Build the patched stack, check it, and compare what was measured with the baselines.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in commands:
        command.add(subparsers)
    return parser


def split_rest(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments before the first ``--`` and those after it."""
    words = list(argv)
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def parse(argv: Sequence[str], commands: Sequence[ModuleType] = COMMANDS) -> argparse.Namespace:
    """The parsed command line, ``rest`` included.

    Raises:
        UsageError: an option nobody knows, or ``--`` for a command that takes nothing after it.
    """
    own, rest = split_rest(argv)
    args, unknown = build_parser(commands).parse_known_args(own)
    if (unknown or rest) and not getattr(args, "takes_rest", False):
        extra = " ".join([*unknown, *rest])
        raise UsageError(
            f"python -m ci {args.command}: unrecognized arguments: {extra}",
            remedy=f"python -m ci {args.command} --help",
        )
    args.rest = [*unknown, *rest]
    return args


def last_line(code: ExitCode, detail: str) -> str:
    """The line that every command with a verdict ends in."""
    return f"verdict: {WORDS[code]} - {detail} (exit {int(code)})"


def report_error(error: GateError) -> None:
    """Print an error with its cause, its remedy and the last line."""
    sys.stdout.flush()
    print(f"error: {error}", file=sys.stderr)
    print(last_line(error.exit_code, error.what.partition("\n")[0]), file=sys.stderr, flush=True)


def report_unusable(error: OSError) -> None:
    """Print an operating system error that no command foresaw as what it is: a path that cannot be used."""
    named = error.filename if isinstance(error.filename, str) else os.fsdecode(error.filename)
    remedy = "check that the path exists, is of the kind meant, and can be read and written"
    report_error(UsageError(f"{named}: cannot be used: {error.strerror or error}", remedy=remedy))


def report_fault(error: Exception) -> None:
    """Print a fault of the gate itself with its traceback; it says nothing about what was measured."""
    sys.stdout.flush()
    traceback.print_exception(error)
    first = str(error).partition("\n")[0]
    detail = f"internal error: {type(error).__name__}: {first}"
    print(last_line(ExitCode.NO_VERDICT, detail), file=sys.stderr, flush=True)


def main(argv: Sequence[str], commands: Sequence[ModuleType] = COMMANDS) -> int:
    """Run one command and return the exit code of the process."""
    try:
        args = parse(argv, commands)
        func: Callable[[argparse.Namespace], ExitCode] = args.func
        code = int(func(args))
        sys.stdout.flush()
    except GateError as error:
        report_error(error)
        return int(error.exit_code)
    except KeyboardInterrupt:
        sys.stdout.flush()
        print(f"verdict: no verdict - interrupted (exit {INTERRUPTED})", file=sys.stderr, flush=True)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone; keep the interpreter from flushing into the closed pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.NO_VERDICT)
    except Exception as error:
        if isinstance(error, OSError) and isinstance(error.filename, str | bytes):
            report_unusable(error)
        else:
            report_fault(error)
        return int(ExitCode.NO_VERDICT)
    return code
