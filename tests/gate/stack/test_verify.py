from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci.stack.arms import build
from ci.stack.errors import ArmNotBuiltError
from ci.stack.locate import WheelSource
from ci.stack.plan import ArmPlan, plan_arms
from ci.stack.record import Flavour
from ci.stack.series import read_series
from ci.stack.verify import Verification, verify_arm

ONE = "--- a/vllm/m.py\n+++ b/vllm/m.py\n@@ -5,3 +5,3 @@\n line 5\n-line 6\n+line SIX\n line 7\n"


@pytest.fixture
def verify(wheel: Any, tmp_path: Path, make_series: Callable[..., Path]) -> Callable[[], Verification]:
    """Build stock and patched; each call verifies the patched arm."""
    folder, cache = make_series({"1.patch": ONE}), tmp_path / "cache"
    build(folder, cache, Flavour.LEAN, None, None, wheel.pin, lambda *_: WheelSource(wheel.path.as_uri()))
    plan = plan_arms(read_series(folder))[-1]
    return lambda: verify_arm(plan, cache, Flavour.LEAN, wheel.pin)


def found(verification: Verification) -> list[tuple[str, str]]:
    """Path and kind of each difference."""
    return [(difference.path, difference.kind.value) for difference in verification.differences]


def test_an_arm_as_built_has_no_difference(verify: Callable[[], Verification], wheel: Any) -> None:
    """Every file is hashed and right; caches that Python leaves are not counted."""
    root = verify().root
    (root / "vllm/__pycache__").mkdir()
    (root / "vllm/__pycache__/m.cpython-311.pyc").write_bytes(b"x")
    checked = verify()
    assert found(checked) == []
    assert checked.files == len([path for path in wheel.files if Flavour.LEAN.keeps(path)])


def test_every_file_that_differs_is_named(verify: Callable[[], Verification]) -> None:
    """Patched, unpatched, missing and extra files are all found in one go."""
    root = verify().root
    for name in ("vllm/m.py", "vllm/n.py", "vllm/__init__.py"):
        (root / name).unlink()
    (root / "vllm/m.py").write_bytes(b"patched, then edited\n")
    (root / "vllm/n.py").write_bytes(b"edited\n")
    (root / "vllm/more.py").write_bytes(b"")
    assert found(verify()) == [
        ("vllm/__init__.py", "missing"),
        ("vllm/m.py", "changed"),
        ("vllm/more.py", "extra"),
        ("vllm/n.py", "changed"),
    ]


def test_a_patched_file_put_back_to_stock_is_named(verify: Callable[[], Verification], wheel: Any) -> None:
    """An arm that silently lost its patch does not pass as patched."""
    file = verify().root / "vllm/m.py"
    file.unlink()
    file.write_bytes(wheel.files["vllm/m.py"])
    assert found(verify()) == [("vllm/m.py", "changed")]


@pytest.mark.parametrize("name", ["arm.json", "vllm-9.9.9.dist-info/RECORD"])
def test_a_broken_witness_is_a_difference_itself(name: str, verify: Callable[[], Verification]) -> None:
    """Without its manifest or its RECORD an arm proves nothing."""
    file = verify().root / name
    file.unlink()
    assert found(verify()) == [(name, "changed")]
    file.write_bytes(b"{")
    assert found(verify()) == [(name, "changed")]


def test_a_manifest_of_another_series_is_a_difference(verify: Callable[[], Verification]) -> None:
    """The manifest has to be about the patches of the series."""
    file = verify().root / "arm.json"
    data = json.loads(file.read_text())
    data["patches"][0]["hunk_hash"] = "0" * 64
    file.write_text(json.dumps(data))
    assert found(verify()) == [("arm.json", "changed")]


def test_an_arm_that_is_not_built_is_an_error(tmp_path: Path, wheel: Any) -> None:
    """Nothing there is not nothing wrong."""
    with pytest.raises(ArmNotBuiltError, match="arm stock"):
        verify_arm(ArmPlan("stock", ()), tmp_path, Flavour.LEAN, wheel.pin)
