from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ci.lanes.facts import (
    folder,
    has_compiler,
    has_headers,
    parse_cuda,
    parse_runners,
    read_facts,
    read_model,
    read_torch,
)

HEADING = "| NVIDIA-SMI 580.95.05      Driver Version: 580.95.05      CUDA Version: 13.0     |"


def test_the_cuda_version_of_the_heading() -> None:
    """Read where it stands; None if it does not."""
    assert parse_cuda(HEADING) == "13.0"
    assert parse_cuda("| CUDA UMD Version: 13.3 |") == "13.3"
    assert parse_cuda("CUDA Version: N/A") is None


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    """The nearest one above it is asked, since a first run makes it."""
    found = folder("cache", tmp_path / "a" / "b")
    assert found.writable
    assert found.free_bytes


def test_the_compiler_that_triton_would_call(tmp_path: Path) -> None:
    """CC decides where it is set; otherwise gcc or clang, on the path."""
    path = {"PATH": str(tmp_path)}
    assert not has_compiler(path)
    (tmp_path / "clang").write_text("")
    (tmp_path / "clang").chmod(0o755)
    assert has_compiler(path)
    assert not has_compiler({**path, "CC": "gcc"})
    assert has_compiler({**path, "CC": str(tmp_path / "clang")})


def test_headers_are_those_of_the_interpreter(tmp_path: Path) -> None:
    """It is asked where they lie; one that does not answer has none."""
    lone = tmp_path / "python"
    lone.write_text(f"#!/bin/sh\necho {tmp_path}\n")
    lone.chmod(0o755)
    assert not has_headers(lone)
    (tmp_path / "Python.h").write_text("")
    assert has_headers(lone)
    lone.write_text("#!/bin/sh\nexit 1\n")
    assert not has_headers(lone)


def test_a_model_that_is_whole_or_not(tmp_path: Path) -> None:
    """Every file that its index lists has to be there, and not empty."""
    assert read_model("M", None).path is None
    assert read_model("M", str(tmp_path)).missing == ("config.json", "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    shards = {"a": "one.safetensors", "b": "two.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    (tmp_path / "one.safetensors").write_bytes(b"x")
    (tmp_path / "two.safetensors").write_bytes(b"")
    assert read_model("M", str(tmp_path)).missing == ("two.safetensors",)
    (tmp_path / "model.safetensors.index.json").write_text("[]")
    assert read_model("M", str(tmp_path)).missing == ("model.safetensors.index.json",)


def test_torch_is_asked_in_its_own_environment(tmp_path: Path) -> None:
    """No environment is None, one without torch an error that is said."""
    assert read_torch(tmp_path / "python") is None
    lone = tmp_path / "python"
    lone.write_text(f"#!/bin/sh\nexec {sys.executable} -S -E -c 'import nothing_here'\n")
    lone.chmod(0o755)
    found = read_torch(lone)
    assert found is not None
    assert found.error == "ModuleNotFoundError: No module named 'nothing_here'"
    lone.write_text("#!/bin/sh\nexit 3\n")
    found = read_torch(lone)
    assert found is not None
    assert found.error == "ended with 3"
    lone.chmod(0o644)
    found = read_torch(lone)
    assert found is not None
    assert "Permission denied" in str(found.error)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"runners": [{"status": "online"}]}'])
def test_an_answer_of_another_shape_is_no_answer(text: str) -> None:
    """A runner is never made up, nor reported absent."""
    assert parse_runners(text) is None


def test_only_runners_that_are_online_count() -> None:
    """GitHub lists offline ones too; labels are compared without case."""
    runners = [
        {"status": "offline", "labels": [{"name": "rtx4090"}]},
        {"status": "online", "labels": [{"name": "Linux"}, {"name": "rtx3090"}]},
    ]
    assert parse_runners(json.dumps({"runners": runners})) == (frozenset({"linux", "rtx3090"}),)


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    """Reading raises nothing whatever the machine is; without a GPU lane, nothing about one is asked."""
    facts = read_facts(False, tmp_path, tmp_path, tmp_path / "python", {})
    assert facts.python == sys.version_info[:2]
    assert (facts.cuda_driver, facts.xids, facts.models, facts.labels) == (None, None, (), None)
