from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ci import cli
from ci.errors import ExitCode, GateError, UsageError

ROOT = Path(__file__).parents[2]


class _BrokenControlError(GateError):
    exit_code = ExitCode.CONTROL_FAILED


def command(
    name: str, takes_rest: bool = False, outcome: BaseException | ExitCode = ExitCode.PASS
) -> ModuleType:
    """A command that ends in `outcome` and prints what it was given."""

    def run(args: argparse.Namespace) -> ExitCode:
        print(name, args.rest)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        parser = subparsers.add_parser(name)
        parser.add_argument("suites", nargs="*")
        parser.add_argument("--arm")
        parser.set_defaults(func=run, takes_rest=takes_rest)

    module = ModuleType(name)
    module.add = add  # type: ignore[attr-defined]
    return module


def test_the_code_of_a_command_is_the_code_of_the_process() -> None:
    """Whatever verdict a command ends in comes out as it is."""
    for code in ExitCode:
        assert cli.main(["go"], [command("go", outcome=code)]) == code


def test_an_error_ends_in_cause_remedy_and_a_last_line_that_agrees(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A GateError is printed whole on standard error, and the last line says no verdict with its code."""
    error = UsageError("baseline missing for cpu/pool", cause="a new suite", remedy="nox -s accept")
    assert cli.main(["go"], [command("go", outcome=error)]) == 2
    err = capsys.readouterr().err.splitlines()
    assert err == [
        "error: baseline missing for cpu/pool",
        "  cause:  a new suite",
        "  remedy: nox -s accept",
        "verdict: no verdict - baseline missing for cpu/pool (exit 2)",
    ]


def test_an_error_with_another_code_says_that_code(capsys: pytest.CaptureFixture[str]) -> None:
    """The word and the number of the last line come from the error's own code."""
    assert cli.main(["go"], [command("go", outcome=_BrokenControlError("seq-rows stayed green"))]) == 3
    assert capsys.readouterr().err.endswith("verdict: control failed - seq-rows stayed green (exit 3)\n")


def test_ctrl_c_is_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """An interrupted command ends as shells expect, and never with 0."""
    assert cli.main(["go"], [command("go", outcome=KeyboardInterrupt())]) == 130
    assert capsys.readouterr().err == "verdict: no verdict - interrupted (exit 130)\n"


def test_a_file_that_cannot_be_used_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """An operating system error that no command foresaw names its path, and is no regression."""
    error = PermissionError(13, "Permission denied", "/etc/x")
    assert cli.main(["go"], [command("go", outcome=error)]) == 2
    err = capsys.readouterr().err.splitlines()
    assert err[0] == "error: /etc/x: cannot be used: Permission denied"
    assert err[1].startswith("  remedy: ")
    assert err[-1] == "verdict: no verdict - /etc/x: cannot be used: Permission denied (exit 2)"


@pytest.mark.parametrize("error", [ValueError("bad\nmore"), KeyError("bad"), OSError("bad")])
def test_a_fault_of_the_gate_is_never_taken_for_a_regression(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python's own exit code for a traceback means "regressed" here, so it never gets that far."""
    assert cli.main(["go"], [command("go", outcome=error)]) == 2
    err = capsys.readouterr().err.splitlines()
    assert err[0].startswith("Traceback")
    assert err[-1].startswith(f"verdict: no verdict - internal error: {type(error).__name__}: ")
    assert err[-1].endswith("bad (exit 2)") or err[-1].endswith("'bad' (exit 2)")


def test_what_stands_after_the_dashes_is_kept_apart() -> None:
    """Options after `--` reach the command untouched, its own options in front of it do not."""
    args = cli.parse(
        ["go", "grid", "--arm", "mq3d", "--", "-k", "x", "--arm", "y"], [command("go", takes_rest=True)]
    )
    assert (args.arm, args.suites, args.rest) == ("mq3d", ["grid"], ["-k", "x", "--arm", "y"])


def test_options_of_a_suite_need_no_dashes() -> None:
    """An option that only the suite knows goes on to it, wherever it stands."""
    commands = [command("go", takes_rest=True)]
    for line in ("go grid --mutate seq-rows --arm stock", "go grid --arm stock --mutate seq-rows"):
        args = cli.parse(line.split(), commands)
        assert (args.suites, args.arm, args.rest) == (["grid"], "stock", ["--mutate", "seq-rows"])


def test_an_abbreviation_is_not_guessed() -> None:
    """`--ar` may be meant for pytest, so it is not taken for `--arm`."""
    assert cli.parse(["go", "--ar=x"], [command("go", takes_rest=True)]).rest == ["--ar=x"]


@pytest.mark.parametrize("line", ["go --unknown", "go -- x", "nope", "", "go --arm"])
def test_a_command_line_that_nobody_understands_is_an_error(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad usage ends like every other error, with the help as its remedy."""
    assert cli.main(line.split(), [command("go")]) == 2
    err = capsys.readouterr().err
    assert "--help" in err
    assert err.splitlines()[-1].endswith("(exit 2)")


def test_help_teaches_by_example(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` shows commands to type and the exit codes, and leaves with 0."""
    with pytest.raises(SystemExit) as left:
        cli.main(["--help"])
    assert left.value.code == 0
    out = capsys.readouterr().out
    assert "python -m ci run property" in out
    assert "exit codes:" in out


def test_every_command_shows_examples() -> None:
    """Each command's own help has examples that begin like what one types."""
    for name, parser in _parsers().items():
        assert f"python -m ci {name}" in (parser.epilog or ""), name


def test_the_examples_of_help_are_understood() -> None:
    """Every example line of every help text parses."""
    texts = [cli.EPILOG, *(parser.epilog or "" for parser in _parsers().values())]
    shown = [line.strip() for text in texts for line in text.splitlines()]
    for line in (line for line in shown if line.startswith("python -m ci ")):
        words = line.partition("python -m ci ")[2].split("  ")[0]
        cli.parse(shlex.split(words, comments=True))


def test_a_closed_pipe_is_no_traceback() -> None:
    """`python -m ci --help | head -1` ends quietly."""
    source = f"cd {ROOT} && {sys.executable} -m ci --help | head -1"
    done = subprocess.run(["bash", "-c", source], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("usage:")


def _parsers() -> dict[str, argparse.ArgumentParser]:
    actions = cli.build_parser()._actions
    (choices,) = [action.choices for action in actions if isinstance(action, argparse._SubParsersAction)]
    return dict(choices)
