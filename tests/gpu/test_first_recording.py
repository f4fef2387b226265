"""The first CUDA graph of a process, where nothing has asked ATen for a matrix product: cuBLAS is not there yet."""

import subprocess
import sys

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

PROGRAM = """
import sys

import torch
from torch import nn

import longhand

n_replays = 0
replay = torch.cuda.CUDAGraph.replay


def counted(graph):
    global n_replays
    n_replays += 1
    replay(graph)


torch.cuda.CUDAGraph.replay = counted
model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)).cuda()
run = longhand.compile(model, mode="reduce-overhead")
x = torch.ones(64, 256, device="cuda")
for _ in range(6):
    if sys.argv[1] == "training":
        model.zero_grad(set_to_none=True)
        run(x).square().mean().backward()
    else:
        with torch.no_grad():
            run(x)
torch.cuda.synchronize()
print(n_replays)
"""


@pytest.mark.parametrize("kind", ["inference", "training"])
def test_the_first_recording_of_a_process_is_replayed(kind: str) -> None:
    """tests/gpu/test_training_graph.py failed where it ran alone (pytorch#99397): blas.c made all products so far."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind], check=True, capture_output=True, text=True, timeout=300
    )
    assert int(done.stdout.split()[-1]) >= (4 if kind == "training" else 2), done.stderr[-2000:]
