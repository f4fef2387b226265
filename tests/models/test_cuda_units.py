"""CUDA units of models that nobody tuned for: each kernel compiles for sm_90 and agrees with its reference.

A few here; the others of tests/models/handwritten.py in the sweep. On a machine without a GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.models.handwritten import HANDWRITTEN

# Beside those of FEW_TRAINED, whose units have a forward pass, too.
FEW = (
    "Gru",
    "NoiseScheduleInPlace",
    "PatchEmbedding",
    "LastToken",
    "ClickModel",
    "SelectiveScan",
    "transformers/gpt2",
)
FEW_TRAINED = (
    "DeepSets",
    "DenseTransition",
    "GraphAttention",
    "GraphConvolution",
    "SlidingWindow",
    "transformers/vit",
)
OTHERS = tuple(name for name in HANDWRITTEN if name not in FEW)


def trains(name: str) -> bool:
    """Whether a model has anything to train: a unit that trains is refused where it has not."""
    make = HANDWRITTEN.get(name)
    return make is None or any(True for _ in make()[0].parameters())


def sweep(*words: str) -> None:
    """Runs the sweep in a process of its own, which Triton's interpreter needs."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    command = [sys.executable, "-m", "tests.models.cuda_sweep", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-2000:]}"


def test_units() -> None:
    sweep(*FEW)


def test_units_that_train() -> None:
    sweep("--train", *FEW_TRAINED)


@pytest.mark.slow
def test_other_units() -> None:
    sweep(*OTHERS)


@pytest.mark.slow
def test_other_units_that_train() -> None:
    trained = [name for name in (*FEW, *OTHERS) if trains(name)]
    assert 0 < len({*FEW, *OTHERS} - set(trained)) < 5
    sweep("--train", *trained)
