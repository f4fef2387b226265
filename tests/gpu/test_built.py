"""CUDA units that `longhand build` made run on a GPU without a compiler: every kernel, and the whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from longhand import cli

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
SERVER = Path(__file__).with_name("built_server.py")
GALLERY = (
    "attention_cuda",
    "gpt_cuda",
    "llama_block_cuda",
    "adamw_cuda",
    "resnet_block_cuda",
    "gpt_train_cuda",
    "resnet_block_train_cuda",
)


def served(unit: Path, place: Path, *words: str) -> str:
    """What the server says of a unit's build."""
    assert cli.run(["build", str(unit), "--out", str(place / "served"), *words]) == 0
    nothing = place / "nothing"
    nothing.mkdir()
    kept = {
        key: value
        for key, value in os.environ.items()
        if key.startswith(("CUDA_", "NVIDIA_", "LD_LIBRARY_PATH"))
    }
    done = subprocess.run(
        [sys.executable, str(SERVER), str(place), "served"],
        env={**kept, "PATH": str(nothing), "HOME": str(nothing)},
        capture_output=True,
        text=True,
        cwd=nothing,
    )
    print(unit.name, done.stdout[-600:])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", GALLERY)
def test_a_unit_of_the_gallery(name, tmp_path):
    assert "launches of binaries" in served(ROOT / "generated" / name, tmp_path)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_unit_whose_batch_varies(mode, tmp_path):
    unit = tmp_path / "unit"
    words = ["--out", str(unit), "--device", "cuda", "--dynamic", "x:0", "--mode", mode]
    assert cli.run(["generate", "tests.longhand.built_cuda_model:make", *words]) == 0
    assert "launches of binaries" in served(unit, tmp_path)
