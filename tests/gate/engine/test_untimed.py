"""Boots that nobody times: the path that they prove, and the pools under which a session then runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ci.engine.abba import SessionError
from ci.engine.identity import parse_arm
from ci.engine.profile import load_profile, timed_names
from ci.engine.untimed import (
    CENSUS_FILE,
    CensusSeen,
    boots_before,
    census_boot,
    kept_pools,
    soak_boot,
    warm_up,
    with_equal_pools,
)
from tests.gate.engine.played import FLAG, LOG, Bench, dispatch, profile


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A session of played boots."""
    return Bench(tmp_path, monkeypatch)


def test_census(bench: Bench) -> None:
    """The untimed boot proves which kernel a full draft takes, with the instrument on."""
    expecting = profile(measure={"paths": ("2D", "3D")})
    bench.log = LOG + dispatch(8, "3D") + dispatch(3, "2D")
    assert census_boot(bench.setup(expecting), "B", 0.0) == CensusSeen((), 10812)
    (problem,) = census_boot(bench.setup(expecting), "A", 0.0).problems
    assert f"census of patched+{FLAG}=0: 8 query tokens take 3D, expected 2D" in problem
    bench.log = LOG + dispatch(8, "3D") + dispatch(8, "2D")
    assert "take 2D and 3D, expected 3D" in census_boot(bench.setup(expecting), "B", 0.0).problems[0]
    either = profile(measure={"paths": ("any", "3D")})
    assert census_boot(bench.setup(either), "A", 0.05).problems == ()


@pytest.mark.parametrize("paths", [None, ("any", "any"), ("3D", "3D")])
def test_nothing_seen_proves_nothing(bench: Bench, paths: tuple[str, str] | None) -> None:
    """A full draft without a dispatch line, whatever the profile says of it; stock has no instrument."""
    bench.roots["stock"] = bench.roots["patched"]
    arms = (parse_arm("stock"), parse_arm("patched"))
    setup = bench.setup(
        profile(measure={"paths": paths}), arms=arms, hashes={"stock": "abc", "patched": "abc"}
    )
    (problem,) = census_boot(setup, "B", 0.0).problems
    wanted = "3D" if paths == ("3D", "3D") else "2D or 3D"
    assert problem == f"census of patched: 8 query tokens take no dispatch line, expected {wanted}"
    assert len(census_boot(setup, "A", 0.0).problems) == (paths == ("3D", "3D"))


def test_profiles_name_the_kernels() -> None:
    """Each profile that times arms says which kernels they are expected to take."""
    measures = [load_profile(name).measure for name in timed_names()]
    assert [one for one in measures if one is None or one.paths is None] == []


def test_soak(bench: Bench) -> None:
    """A soak boot times nothing and finds nothing wrong."""
    assert soak_boot(bench.setup(), 0.05) == []


def test_equal_pools() -> None:
    """Where the arms' pools differ, both are timed with the smaller one; a pool that is set stays."""
    plain = replace(load_profile("rtx4090-steps"), lineage="fresh")
    assert with_equal_pools(plain, (100, 100)) == plain
    assert with_equal_pools(plain, (None, 100)) == plain
    assert with_equal_pools(plain, (100, 90)).serve.flags == ["--num-gpu-blocks-override", "90"]
    ours = load_profile("any-gpu-verify")
    assert with_equal_pools(ours, (100, 90)) == ours


def test_warm_up(bench: Bench) -> None:
    """Both arms prove their path once per session; what went on later only soaks."""
    soaked = profile(measure={"soak_s": 0.05, "paths": ("3D", "3D")})
    setup = bench.setup(soaked)
    assert boots_before(setup.folder, setup.measure) == 2
    _, problems = warm_up(setup)
    # The other arm is not booted: the session has no use for it any more.
    assert [problem.partition(":")[0] for problem in problems] == [f"census of patched+{FLAG}=0"]
    assert not (setup.folder / "engine" / "census-B").exists()
    assert boots_before(setup.folder, setup.measure) == 2  # nothing was proven, so nothing is kept
    bench.log = LOG + dispatch(8, "3D")
    assert warm_up(setup) == (soaked, [])
    assert kept_pools(setup.folder / CENSUS_FILE) == (10812, 10812)
    assert boots_before(setup.folder, setup.measure) == 1
    bench.log = LOG
    assert warm_up(setup) == (soaked, [])
    without = bench.setup(profile(measure={"soak_s": 0.0}))
    assert boots_before(without.folder, without.measure) == 0


def test_kept_pools(tmp_path: Path) -> None:
    """None before there was a census; an arm's are None where /metrics did not say."""
    path = tmp_path / CENSUS_FILE
    assert kept_pools(path) is None
    path.write_text('{"blocks": [null, 7]}')
    assert kept_pools(path) == (None, 7)


@pytest.mark.parametrize(
    "text",
    [
        *("{", "{}", '{"blocks": [1]}', "[]", '{"blocks": ["a", "b"]}', '{"blocks": [5, "b"]}'),
        *('{"blocks": [-4, 7]}', '{"blocks": [0, 7]}', '{"blocks": [4, true]}', '{"blocks": [4.0, 7]}'),
        *("[" * 20_000, '{"blocks": ' + "[" * 20_000, '{"blocks": [1, 2], "more": ' + "[" * 20_000, "\xff"),
    ],
    ids=range(14),
)
def test_damaged_census(tmp_path: Path, text: str) -> None:
    """Anything but two numbers of blocks is refused, and it is said how to have them made again."""
    path = tmp_path / CENSUS_FILE
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SessionError, match=CENSUS_FILE) as caught:
        kept_pools(path)
    assert caught.value.remedy == f"remove {path}: the census boots run again"
