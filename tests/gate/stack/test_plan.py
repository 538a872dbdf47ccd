from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ci.stack.errors import ArmsFileError, UnknownArmError
from ci.stack.plan import choose_plan, choose_plans, parse_arms, plan_arms
from ci.stack.series import OWN_SERIES, read_series

PATCHES = {
    f"000{n}-step {n}.patch": f"--- a/vllm/m.py\n+++ b/vllm/m.py\n@@ -{n} +{n} @@\n-line {n}\n+x\n"
    for n in (1, 2, 3)
}


def plans(folder: Path) -> list[tuple[str, int]]:
    """Name and number of patches of each arm."""
    return [(plan.name, len(plan.patches)) for plan in plan_arms(read_series(folder))]


def test_arms_of_our_own_series() -> None:
    """Every prefix has a name."""
    assert plans(OWN_SERIES) == [
        ("stock", 0),
        ("mq3d", 1),
        ("token-units", 2),
        ("patched", 3),
        ("centred", 4),
        ("packed", 5),
    ]


def test_a_foreign_series_has_an_arm_per_prefix(make_series: Callable[..., Path]) -> None:
    """Without arms.toml the prefixes are called by their last patch, made fit for a folder name."""
    assert plans(make_series(PATCHES)) == [
        ("stock", 0),
        ("0001-step-1", 1),
        ("0002-step-2", 2),
        ("patched", 3),
    ]


def test_without_a_name_it_is_the_whole_series(make_series: Callable[..., Path]) -> None:
    """Whatever its last arm is called: a patch that is added behind it must not go ungated."""
    assert choose_plan(plan_arms(read_series(OWN_SERIES)), None).name == "packed"
    folder = make_series(PATCHES)
    (folder / "arms.toml").write_text('[arms]\npatched = "0001-step 1.patch"\nlast = "0003-step 3.patch"\n')
    arms = plan_arms(read_series(folder))
    assert (choose_plan(arms, None).name, len(choose_plan(arms, None).patches)) == ("last", 3)
    assert choose_plan(arms, "patched").name == "patched"


def test_names_come_from_arms_toml(make_series: Callable[..., Path]) -> None:
    """Only the prefixes that it names stand between stock and patched."""
    folder = make_series(PATCHES)
    (folder / "arms.toml").write_text('[arms]\nmiddle = "0002-step 2.patch"\n')
    assert plans(folder) == [("stock", 0), ("middle", 2), ("patched", 3)]


def test_a_name_for_the_whole_series(make_series: Callable[..., Path]) -> None:
    """A shorter prefix may be called patched; then the whole series needs another name."""
    folder = make_series(PATCHES)
    (folder / "arms.toml").write_text('[arms]\npatched = "0002-step 2.patch"\nall = "0003-step 3.patch"\n')
    assert plans(folder) == [("stock", 0), ("patched", 2), ("all", 3)]
    assert choose_plans(plan_arms(read_series(folder)), ["0003-step-3"])[0].name == "all"
    (folder / "arms.toml").write_text('[arms]\npatched = "0002-step 2.patch"\n')
    with pytest.raises(ArmsFileError, match="no arm holds the whole series"):
        plan_arms(read_series(folder))


def test_a_name_for_a_patch_that_is_not_there(make_series: Callable[..., Path]) -> None:
    """arms.toml and the series must agree."""
    folder = make_series(PATCHES)
    (folder / "arms.toml").write_text('[arms]\nmiddle = "gone.patch"\n')
    with pytest.raises(ArmsFileError, match=r"arms\.toml: not in the series: middle = 'gone\.patch'"):
        plan_arms(read_series(folder))


@pytest.mark.parametrize(
    "text",
    ["x", "[other]\n", "arms = 1", '[arms]\nstock = "a"', '[arms]\n"../x" = "a"',
     "[arms]\na = 1", '[arms]\na = "b"\n[more]\n'],
)  # fmt: skip
def test_an_arms_file_that_is_not_one(text: str) -> None:
    """Anything but one table of safe names and strings is refused with the file's name."""
    with pytest.raises(ArmsFileError, match=r"^dir/arms\.toml"):
        parse_arms(text.encode(), "dir/arms.toml")


def test_arms_are_chosen_by_name(make_series: Callable[..., Path]) -> None:
    """In order of the series, each once; the last patch's name means the whole series; others are refused."""
    all_plans = plan_arms(read_series(make_series(PATCHES)))
    assert choose_plans(all_plans, None) == all_plans
    chosen = choose_plans(all_plans, ["0003-step-3", "stock", "patched"])
    assert [plan.name for plan in chosen] == ["stock", "patched"]
    with pytest.raises(UnknownArmError, match="no arm called nope") as caught:
        choose_plans(all_plans, ["nope"])
    assert caught.value.remedy == "name one of: stock, 0001-step-1, 0002-step-2, patched"


def test_a_prefix_keeps_its_hash_when_later_patches_change(make_series: Callable[..., Path]) -> None:
    """Work on the third patch does not make the arms before it new."""
    before = {plan.name: plan.series_hash for plan in plan_arms(read_series(make_series(PATCHES)))}
    changed = PATCHES | {"0003-step 3.patch": PATCHES["0003-step 3.patch"].replace("+x", "+y")}
    after = {plan.name: plan.series_hash for plan in plan_arms(read_series(make_series(changed)))}
    assert [name for name in before if before[name] != after[name]] == ["patched"]
