"""Every damage turns the gate red for its own reason, and every rule of the gate has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.cli import main
from ci.commands import prove_red
from ci.commands.prove_red import BaseNotGreenError, moved_baselines, prove, render_damages
from ci.errors import ExitCode
from ci.gate.rows import Cause
from ci.gate.verdict import Verdict
from ci.proof import checkout
from ci.proof.damage import Damage
from ci.proof.damages import DAMAGES
from ci.proof.rules import GateRule
from tests.gate.samples import Sample

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def proofs() -> dict[str, prove_red.Proof]:
    """Return every damage with what the gate said."""
    return {proof.damage.name: proof for proof in prove(DAMAGES)}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_damage_is_caught(damage: Damage, proofs: dict[str, prove_red.Proof]) -> None:
    """The verdict and the exit code are the ones that the damage asks for, and the output names it."""
    assert proofs[damage.name].problem == "", proofs[damage.name].outcome.text


def test_damages_are_complete(proofs: dict[str, prove_red.Proof]) -> None:
    """Every rule and every cause of a row has a damage, no two share a name, and there are many."""
    assert {damage.rule for damage in DAMAGES} == set(GateRule)
    seen = set().union(*(proof.outcome.causes for proof in proofs.values()))
    # A metric without a rule ends before any comparison, as the damage "policy rule removed" shows.
    assert seen == set(Cause) - {Cause.NO_RULE}
    assert len({damage.name for damage in DAMAGES}) == len(DAMAGES) >= 40
    words = {damage.word for damage in DAMAGES}
    assert words == {one.value for one in Verdict if one.exit_code is not ExitCode.PASS} | {
        "error",
        "control failed",
    }


def test_no_damage_expects_green() -> None:
    """A damage that may pass would be no damage."""
    assert [damage.name for damage in DAMAGES if damage.code is ExitCode.PASS] == []


def test_table_in_docs_is_current() -> None:
    """docs/prove-red.md is what the code gives; else: python -m ci prove-red --write docs/prove-red.md."""
    assert (ROOT / "docs" / "prove-red.md").read_text(encoding="utf-8") == render_damages(DAMAGES)


@pytest.mark.parametrize(
    ("word", "code", "says", "problem"),
    [
        ("invalid", ExitCode.NO_VERDICT, "", "it is missing (exit 2)"),
        ("missing", ExitCode.REGRESSED, "", "it is missing (exit 2)"),
        ("missing", ExitCode.NO_VERDICT, "words that nobody says", "does not say"),
    ],
)
def test_a_damage_caught_otherwise_is_not_caught(word: str, code: ExitCode, says: str, problem: str) -> None:
    """Another verdict, another code or another reason counts as not noticed."""
    damage = Damage("x", GateRule.FILES, word, code, says, lambda here: here.records.unlink())
    (proof,) = prove([damage])
    assert problem in proof.problem


def test_damage_that_changes_nothing_is_an_error() -> None:
    """A text that is not there cannot be damaged."""
    damage = Damage(
        "x",
        GateRule.FILES,
        "invalid",
        ExitCode.NO_VERDICT,
        "",
        lambda here: here.edit(here.records, "zz", "y"),
    )
    with pytest.raises(checkout.UnchangedError):
        prove([damage])


def test_base_must_be_green(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a red checkout every damage would look caught."""
    monkeypatch.setattr(checkout, "sample_records", checkout.second_records)
    with pytest.raises(BaseNotGreenError):
        prove(DAMAGES[:1])


def test_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The command ends in the count; a word chooses; an unknown word is an error."""
    Sample().write(tmp_path)
    baselines = ("--baselines", str(tmp_path / "baselines"))
    assert main(["prove-red", "DOCTYPE", "--write", str(tmp_path / "t.md"), *baselines]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "verdict: pass - 6 of 6 damages caught (exit 0)"
    assert (tmp_path / "t.md").read_text() == render_damages(DAMAGES)
    assert main(["prove-red", "no such damage", *baselines]) == 2


def test_command_tells_what_is_not_caught(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One damage that goes unnoticed is exit 3."""
    Sample().write(tmp_path)
    deaf = Damage("harmless", GateRule.FILES, "invalid", ExitCode.NO_VERDICT, "", lambda _: None)
    monkeypatch.setattr(prove_red, "DAMAGES", (deaf,))
    assert main(["prove-red", "--baselines", str(tmp_path / "baselines")]) == 3
    out = capsys.readouterr().out
    assert "NOT CAUGHT harmless: invalid (exit 2), but it is pass (exit 0)" in out
    assert out.splitlines()[-1] == "verdict: control failed - 5 of 6 damages caught (exit 3)"


def test_values_that_may_move_freely_are_named(tmp_path: Path) -> None:
    """A bound far above an accepted value lets it move up; nothing lets it move both ways but `info`."""
    sample = Sample()
    sample.write(tmp_path)
    assert moved_baselines(tmp_path / "baselines") == (5, [])
    policy = tmp_path / "baselines" / "policy.toml"
    policy.write_text(
        policy.read_text().replace('kind = "at-most"', 'kind = "at-most"\nlimit = 9000000000'),
        encoding="utf-8",
    )
    assert moved_baselines(tmp_path / "baselines") == (5, ["cpu/property boot bytes"])


def test_every_accepted_value_of_this_checkout_is_guarded() -> None:
    """No accepted value of the real baselines may move without the real policy noticing."""
    judged, deaf = moved_baselines(ROOT / "baselines")
    assert judged > 0
    assert deaf == []
