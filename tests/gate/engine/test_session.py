"""A session's boots: order, keeping, and going on after an interruption."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ci.engine.session import Boot, KeptBootError, memory_boots, run_session, session_key
from ci.results.boot import BootFacts, Measured

KEY = session_key("profile", "arms", "machine")
ORDER = [Boot("token-units", 8, 1), Boot("patched", 8, 1), Boot("token-units", 8, 2)]


def facts(boot: Boot, problem: str | None = None) -> BootFacts:
    """Facts of a boot."""
    number = Measured(1)
    return BootFacts(
        name=boot.name,
        arm=boot.arm,
        lane="h200",
        environment="container",
        session="s",
        max_num_seqs=boot.max_num_seqs,
        problem=problem,
        lineage="cold",
        ubatching=False,
        loaded=number,
        adopted_lines=4,
        late_lines=0,
        expected_adoptions=4,
        model_load=number,
        available_kv=number,
        kv_tokens=number,
        block_tokens=number,
        free_after_boot=Measured(None, reason="not read"),
        resident=number,
    )


def test_a_key_knows_its_parts_apart() -> None:
    """The same letters, divided otherwise, are another session's."""
    assert (
        len({session_key("ab", "c"), session_key("a", "bc"), session_key("abc"), session_key("c", "ab")}) == 4
    )


def test_an_aa_pair_is_part_of_every_row() -> None:
    """Around each subject boot there is a reference boot on either side."""
    assert memory_boots([8], "token-units", "patched") == ORDER
    assert len({boot.name for boot in memory_boots([8, 4], "token-units", "patched")}) == 6


def test_interrupted_session_goes_on(tmp_path: Path) -> None:
    """What was done before an interruption is not booted again, and the result is the same."""
    booted: list[str] = []

    def one(boot: Boot, _folder: Path) -> BootFacts:
        if len(booted) == 2 and booted[-1] != "again":
            booted.append("again")
            raise KeyboardInterrupt
        booted.append(boot.name)
        return facts(boot)

    with pytest.raises(KeyboardInterrupt):
        run_session(tmp_path, ORDER, KEY, one)
    assert [found.name for found in run_session(tmp_path, ORDER, KEY, one)] == [boot.name for boot in ORDER]
    assert booted == [ORDER[0].name, ORDER[1].name, "again", ORDER[2].name]
    assert run_session(tmp_path, ORDER, KEY, lambda *_: pytest.fail("booted again"))[1] == facts(ORDER[1])


def test_old_boots_are_made_again(tmp_path: Path) -> None:
    """A boot of an hour ago belongs to this sitting; one of the day before or after does not."""
    run_session(tmp_path, ORDER[:1], KEY, lambda boot, _: facts(boot))
    path = tmp_path / f"{ORDER[0].name}.json"
    old = json.loads(path.read_text())
    booted: list[str] = []

    def again(boot: Boot, _folder: Path) -> BootFacts:
        booted.append(boot.name)
        return facts(boot)

    ages = ((timedelta(hours=1), 0), (timedelta(hours=24, seconds=1), 1), (timedelta(days=-2), 2))
    for age, expected in ages:
        path.write_text(json.dumps(old | {"made": (datetime.now(UTC) - age).isoformat()}))
        run_session(tmp_path, ORDER[:1], KEY, again)
        assert len(booted) == expected


def test_failed_boot_is_kept(tmp_path: Path) -> None:
    """A boot with a problem is a result as well."""
    found = run_session(tmp_path, ORDER[:1], KEY, lambda boot, _: facts(boot, "failed: out of memory"))
    assert run_session(tmp_path, ORDER[:1], KEY, lambda *_: pytest.fail("booted again")) == found


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text[:-30], "truncated"),
        (lambda text: text.replace(KEY, "0" * 64), "another profile, arm or machine"),
        (lambda text: re.sub(r'("made": "[^"]*?)(Z|\+00:00)"', r'\1"', text), "timezone"),
        (lambda text: text.replace('"token-units"', '"patched"'), "holds patched at 8"),
    ],
)
def test_foreign_or_damaged_boot_is_refused(tmp_path: Path, damage: object, words: str) -> None:
    """A kept boot that is not of this session stops it, and the message says what to delete."""
    run_session(tmp_path, ORDER[:1], KEY, lambda boot, _: facts(boot))
    path = tmp_path / f"{ORDER[0].name}.json"
    path.write_text(damage(path.read_text()))  # type: ignore[operator]
    with pytest.raises(KeptBootError, match=words) as caught:
        run_session(tmp_path, ORDER[:1], KEY, lambda boot, _: facts(boot))
    assert f"delete {path}" in str(caught.value)
