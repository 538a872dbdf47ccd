"""Profiles: the launch sets that were published, as commands; and what is wrong with a profile."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace

from ci.engine.boot import serve_launch
from ci.engine.identity import DEBUG, parse_arm
from ci.engine.profile import (
    PROFILES,
    Profile,
    ProfileError,
    Reading,
    boot_environment,
    load_profile,
    parse_profile,
    profile_names,
    serve_words,
)
from ci.engine.timed import SLOWDOWN_VARIABLE
from ci.lanes.gpu import READINGS

MODELS = {"FORKPROOF_MODEL": "/m/target", "FORKPROOF_DRAFTER": "/m/drafter", "FORKPROOF_DUMMY": "/d"}


def option(words: list[str], name: str) -> str:
    """The word behind an option."""
    return words[words.index(name) + 1]


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_gives_a_command(name: str) -> None:
    """Each stored profile parses, names its origin, and gives a command for each of its boots."""
    profile = load_profile(name)
    assert profile.origin
    for seqs in profile.serve.max_num_seqs:
        words = serve_words(profile, seqs, MODELS)
        assert option(words, "--max-num-seqs") == str(seqs)
        assert option(words, "--kv-cache-dtype") == "int4_per_token_head"
        assert not any("$" in word for word in words)


@pytest.mark.parametrize(
    ("name", "length", "seqs", "depth", "lineage", "environment"),
    [
        ("rtx3090-throughput", 262_144, [1], 7, "shared:reference", "native"),
        ("rtx3090-memory", 180_000, [8, 16, 32, 64], 7, "fresh", "native"),
        ("rtx4090-memory", 81_920, [4, 16, 32], 7, "disabled", "wsl2"),
        ("rtx4090-depth15", 32_768, [4], 15, "fresh", "wsl2"),
        ("rtx3090-captured", 98_304, [1], 7, "fresh", "native"),
    ],
)
def test_the_five_published_sets(
    name: str, length: int, seqs: list[int], depth: int, lineage: str, environment: str
) -> None:
    """Context, sequences, depth, lineage and environment are those of the specification."""
    profile = load_profile(name)
    assert (profile.serve.max_model_len, profile.serve.max_num_seqs, profile.model.depth) == (
        length,
        seqs,
        depth,
    )
    assert (profile.lineage, profile.environment) == (lineage, environment)
    assert profile.needs is not None
    assert "DFlash2" in profile.needs


def test_settings_reach_the_command() -> None:
    """Utilisation, prefix cache, match unit, power limit and speculation are where they are needed."""
    wsl = serve_words(load_profile("rtx4090-memory"), 16, MODELS)
    assert option(wsl, "--gpu-memory-utilization") == "0.93"
    assert "--enable-prefix-caching" in wsl
    captured = load_profile("rtx3090-captured")
    words = serve_words(captured, 1, MODELS)
    assert "--no-enable-prefix-caching" in words
    assert json.loads(option(words, "--compilation-config")) == {"cudagraph_capture_sizes": [1, 2, 4, 8]}
    assert captured.limits.power_limit_w == 250
    dummy = serve_words(load_profile("any-gpu-captured"), 1, {"FORKPROOF_DUMMY": "/d"})
    assert json.loads(option(dummy, "--compilation-config"))["backend"] == "eager"
    throughput = serve_words(load_profile("rtx3090-throughput"), 1, MODELS)
    assert option(throughput, "--prefix-match-unit") == "848"
    assert json.loads(option(throughput, "--speculative-config")) == {
        "num_speculative_tokens": 7,
        "method": "dflash",
        "model": "/m/drafter",
    }


@pytest.mark.parametrize(
    ("name", "causes"),
    [
        ("rtx3090-depth11-262144", ["out of memory"]),
        ("rtx3090-depth11-98304", ["block divisibility", "out of memory"]),
        ("rtx3090-depth11-98304-no-unit", ["block divisibility", "out of memory"]),
    ],
)
def test_depth_eleven_is_expected_to_fail(name: str, causes: list[str]) -> None:
    """The expected failures carry their causes and the published number of attempts."""
    expect = load_profile(name).expect
    assert (expect.outcome, expect.causes, expect.attempts) == ("failed", causes, 8)


@pytest.mark.parametrize("depth", [7, 8, 15])
def test_dummies_need_no_download(depth: int) -> None:
    """The dummies set their capture sizes, load random weights and name a drafter of their own."""
    profile = load_profile(f"any-gpu-dummy{depth}")
    words = serve_words(profile, 32, MODELS)
    assert profile.needs is None
    assert profile.serve.capture_sizes is not None
    assert option(words, "--load-format") == "dummy"
    assert json.loads(option(words, "--speculative-config"))["num_speculative_tokens"] == depth


def test_caches_are_of_the_boot(tmp_path: Path) -> None:
    """All three compile caches lie in the boot's folder; a disabled cache is said to vLLM as well."""
    fresh = boot_environment(load_profile("rtx3090-memory"), tmp_path)
    for name in ("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        assert Path(fresh[name]).is_relative_to(tmp_path)
    assert "VLLM_DISABLE_COMPILE_CACHE" not in fresh
    assert boot_environment(load_profile("rtx4090-memory"), tmp_path)["VLLM_DISABLE_COMPILE_CACHE"] == "1"


def test_unset_model_is_an_error_with_a_remedy() -> None:
    """A model path that is not set names the variable to export."""
    with pytest.raises(ProfileError, match="FORKPROOF_MODEL is not set") as caught:
        serve_words(load_profile("rtx3090-memory"), 8, {})
    assert "export FORKPROOF_MODEL" in str(caught.value)


def test_unknown_profile_lists_the_known() -> None:
    """A name that does not exist is answered with those that do."""
    with pytest.raises(ProfileError) as caught:
        load_profile("rtx5090-memory")
    assert "rtx3090-memory" in str(caught.value)


def test_what_a_profile_may_read_is_what_a_driver_can_say() -> None:
    """Both lists name the same readings."""
    assert set(get_args(Reading)) == set(READINGS)


@pytest.mark.parametrize(("page", "name"), [("membudget", "rtx4090-memory"), ("throughput", "any-gpu-shown")])
def test_the_pages_show_profiles(page: str, name: str) -> None:
    """What a refusal points at can be used as it stands, and shows a [measure] table where it says so."""
    text = (PROFILES.parents[2] / "docs" / f"{page}.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert (parse_profile(shown, Path(f"{name}.toml")).measure is not None) == (page == "throughput")
    with pytest.raises(ProfileError) as caught:
        parse("")
    assert f"docs/{page}.md" in str(caught.value.remedy)


GOOD = (PROFILES / "rtx3090-memory.toml").read_text(encoding="utf-8")


def parse(text: str) -> Profile:
    """A profile from text, under the name that it should have."""
    return parse_profile(text, Path("rtx3090-memory.toml"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('lineage = "fresh"', 'lineage = "warm"', "none of fresh, disabled, shared:ID"),
        ('lane = "rtx3090"', 'lane = "rtx3080"', "is called rtx3080-memory inside"),
        ("max_num_seqs = [8, 16, 32, 64]", "max_num_seqs = []", "at least one number of sequences"),
        ("depth = 7", 'depth = "7"', "Expected `int`"),
        ("[serve]", "[serve]\nmax_seqs = 3", "unknown field"),
        ("depth = 7", "depth = -7", "`int` >= 0"),
        ("max_num_seqs = [8", "max_num_seqs = [-8", "`int` >= 1"),
        ("max_model_len = 180000", "max_model_len = 0", "`int` >= 1"),
        ("max_model_len = 180000", "max_model_len = 9\ngpu_memory_utilization = 7.5", "`float` <= 1"),
        ("load_average = 1.3", "load_average = nan", "`float` > 0"),
        ("load_average = 1.3", "boot_timeout_s = -1.0", "`float` > 0"),
        ("load_average = 1.3", "load_average = inf", r"load_average"),
        ("load_average = 1.3", "boot_timeout_s = inf", "boot_timeout_s"),
        ('VLLM_INT4_MQ_3D = "1"', 'VLLM_INT4_MQ_3D = "a\\u0000"', r"`\$\.env"),
        ("VLLM_INT4_MQ_3D =", '"A=B" =', r"`\$\.env"),
        ("[serve]", '[serve]\nflags = ["\\u0000"]', r"serve\.flags"),
        ('must_read = ["memory"', 'must_read = ["memroy"', "memroy"),
        ("schema = 1", "schema = 2", "schema 2"),
        ("schema = 1", "schema = ", "rtx3090-memory.toml"),
        ("[limits]", '[expect]\noutcome = "failed"\n\n[limits]', "a failure of any kind"),
    ],
)
def test_damaged_profile(old: str, new: str, words: str) -> None:
    """Each mistake is refused with what is wrong; the profile as stored is not."""
    assert parse(GOOD).name == "rtx3090-memory"
    assert GOOD.count(old) == 1
    with pytest.raises(ProfileError, match=words):
        parse(GOOD.replace(old, new))


TIMED = (PROFILES / "any-gpu-verify.toml").read_text(encoding="utf-8")
ARMS = 'arms = ["@previous", "@subject"]'


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("rounds = 15", "rounds = 14", "14 rounds have no median"),
        *[("soak_s = 10.0", f"soak_s = {value}", r"measure\.soak_s") for value in ("-1", "nan", "inf")],
        *[("boot_s = 35.0", f"boot_s = {value}", r"measure\.boot_s") for value in ("-5", "nan", "inf")],
        ("dummy_layers = [8, 1]", "dummy_layers = [0, -1]", r"measure\.dummy_layers"),
        ("max_num_seqs = [1]", "max_num_seqs = [4, 16]", r"serve\.max_num_seqs is \[4, 16\]"),
        (ARMS, 'arms = ["@previous", "@subject+X"]', r"measure\.arms: .*'X' is not a flag"),
        (ARMS, 'arms = ["", "@subject"]', r"measure\.arms: '' names no arm"),
    ],
)
def test_a_measure_that_says_nothing(old: str, new: str, words: str) -> None:
    """Numbers that cannot be meant, arms that are none, and lists of which only a part would be used."""
    assert TIMED.count(old) == 1
    with pytest.raises(ProfileError, match=rf"^any-gpu-verify\.toml: .*{words}") as caught:
        parse_profile(TIMED.replace(old, new), Path("any-gpu-verify.toml"))
    assert caught.value.remedy


def test_what_the_gate_sets_itself(tmp_path: Path) -> None:
    """Neither [env] nor a flag of an arm may name what a launch sets: the gate's value would be gone."""
    bare = load_profile("rtx4090-memory")
    folders = {"arm_root": tmp_path, "folder": tmp_path, "bytecode": tmp_path}
    launch = serve_launch(replace(bare, env={}), 4, variables=MODELS, in_process=True, **folders)
    made = launch.env.keys() - MODELS.keys()
    assert {"PYTHONPATH", "VLLM_CACHE_ROOT"} <= made
    for name in (*made, DEBUG):  # the instrument, which is off in every timed boot
        in_env = TIMED.replace("VLLM_USE_FLASHINFER_SAMPLER", name)
        in_arm = TIMED.replace(ARMS, f'arms = ["@previous", "@subject+{name}=1"]')
        for text, where in ((in_env, "env"), (in_arm, r"measure\.arms")):
            with pytest.raises(ProfileError, match=rf"^any-gpu-verify\.toml: {where}: .*{name}"):
                parse_profile(text, Path("any-gpu-verify.toml"))


@pytest.mark.parametrize(
    ("name", "layers"), [("any-gpu-captured", 2), ("any-gpu-verify", 8), ("any-gpu-verify-compiled", 8)]
)
def test_the_dummy_times_the_verify_path(name: str, layers: int) -> None:
    """Drafts out of the prompt and no drafter, on the documents' layers; the subject's path is proven."""
    one = load_profile(name)
    assert one.measure is not None
    assert (one.model.method, one.model.drafter, one.model.depth) == ("ngram", None, 7)
    assert one.measure.circle
    assert one.measure.dummy_layers[0] == layers
    assert one.measure.paths is not None
    assert one.measure.paths[1] == "3D"


def test_the_slowed_arm_differs_in_nothing_else() -> None:
    """Of its two arms one is the other, made 3% slower."""
    one, verify = load_profile("any-gpu-verify-slowed"), load_profile("any-gpu-verify")
    assert one.measure is not None
    assert verify.measure is not None
    plain, slowed = (parse_arm(text) for text in one.measure.arms)
    assert plain.arm == slowed.arm
    assert (plain.flags, slowed.flags) == ({}, {SLOWDOWN_VARIABLE: "0.03"})
    assert one.serve == verify.serve
    assert (one.measure.judge, one.measure.points) == (verify.measure.judge, verify.measure.points)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('method = "ngram"', 'method = "draft_model"'),
        ("depth = 7", "depth = 0"),
        ("circle = true", "circle = true\nchat = true"),
    ],
)
def test_a_circle_that_nothing_would_meet(old: str, new: str) -> None:
    """It is there for n-gram drafts, and a chat's own tail would be left out."""
    assert TIMED.count(old) == 1
    with pytest.raises(ProfileError, match="a circle is met by n-gram drafts"):
        parse_profile(TIMED.replace(old, new), Path("any-gpu-verify.toml"))
